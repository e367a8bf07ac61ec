import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AmbitError } from '../../errors.ts';

/** A port of this machine that a browser comes back to, once. */
export interface Callback {
  readonly port: number;
  /** What `finish` makes of the address the browser came back to; it is told how that went. */
  come<T>(state: string, finish: (callback: string) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export async function awaitCallback(limitMs: number): Promise<Callback> {
  let answer = (_request: IncomingMessage, response: ServerResponse): void => say(response, 404, 'Not found.');
  const server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    come(state, finish) {
      return new Promise((resolve, reject) => {
        const late = setTimeout(
          () => reject(new AmbitError('LOGIN_FAILED', { what: 'Nobody came back from the browser in time.' })),
          limitMs,
        );
        let used = false;
        answer = (request, response) => {
          const { method, headers, url = '' } = request;
          const here = `127.0.0.1:${port}`;
          const callback = URL.canParse(url, `http://${here}`) ? new URL(url, `http://${here}`) : undefined;
          const ours = callback?.pathname.startsWith('/callback') && callback.searchParams.get('state') === state;
          // Anything else on this machine may knock here as well, and must not end what it did not start.
          if (used || method !== 'GET' || headers.host !== here || callback === undefined || !ours) {
            say(response, 404, 'Not found.');
            return;
          }
          used = true;
          clearTimeout(late);
          finish(callback.href).then(
            (done) => {
              say(response, 200, 'Done. This page can be closed.');
              resolve(done);
            },
            (error) => {
              say(response, 400, 'That did not work; the command says why. This page can be closed.');
              reject(error);
            },
          );
        };
      });
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

function say(response: ServerResponse, status: number, words: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${words}\n`);
}
