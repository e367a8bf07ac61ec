import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Command, jsonFlag, requireFlag, requirePositional } from '../command.ts';
import { printLines } from '../io/ask.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';

/** A port of this machine to which a browser comes back once. */
export interface LoginCallback {
  readonly port: number;
  /** Calls `finish` with the address the browser came back to, and tells the browser how that went. */
  waitFor<T>(state: string, finish: (callback: string) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const loginTimeoutMs = 600_000;

export const loginCommand: Command = {
  operands: 'SERVER',
  help: 'Log a user in to a server, in the browser',
  flags: { user: { type: 'string', value: 'NAME', help: 'User to log in' }, json: jsonFlag },
  async run(invocation) {
    const server = requirePositional(invocation, 'SERVER');
    const userId = requireFlag(invocation, 'user', 'NAME');
    const which = { userId, server };
    const callbackServer = await listenForCallback(loginTimeoutMs);
    try {
      const body = { ...which, port: callbackServer.port };
      const started = await controlRequest(invocation, 'POST /api/v1/logins', { body });
      const state = new URL(started.authorizationUrl).searchParams.get('state') ?? '';
      printLines([
        `Open this URL in a browser on this machine and log in as ${userId}:`,
        '',
        started.authorizationUrl,
        '',
      ]);
      const returned = callbackServer.waitFor(state, (callback) =>
        controlRequest(invocation, 'POST /api/v1/logins/complete', { body: { ...which, callback } }),
      );
      const view = await showProgress('Waiting for the browser', returned);
      printData(invocation, view, () => `Logged ${userId} in to ${server} at ${escapeControls(view.issuer)}.`);
      return 0;
    } finally {
      await callbackServer.close();
    }
  },
};

export async function listenForCallback(limitMs: number): Promise<LoginCallback> {
  let answer = (_request: IncomingMessage, response: ServerResponse): void => respond(response, 404, 'Not found.');
  const server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1');
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    waitFor(state, finish) {
      return new Promise((resolve, reject) => {
        const late = setTimeout(
          () => reject(new AmbitError('LOGIN_FAILED', { what: 'The browser did not come back in time.' })),
          limitMs,
        );
        let used = false;
        answer = (request, response) => {
          const { method, headers, url = '' } = request;
          const here = `127.0.0.1:${port}`;
          const callback = URL.canParse(url, `http://${here}`) ? new URL(url, `http://${here}`) : undefined;
          const ours = callback?.pathname.startsWith('/callback') && callback.searchParams.get('state') === state;
          // Other programs of this machine can call this port too. They must not end a login that they did not start.
          if (used || method !== 'GET' || headers.host !== here || callback === undefined || !ours) {
            respond(response, 404, 'Not found.');
            return;
          }
          used = true;
          clearTimeout(late);
          finish(callback.href).then(
            (done) => {
              respond(response, 200, 'Logged in. You can close this page.');
              resolve(done);
            },
            (error) => {
              respond(response, 400, 'The login failed; the terminal shows why. You can close this page.');
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

function respond(response: ServerResponse, status: number, words: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${words}\n`);
}
