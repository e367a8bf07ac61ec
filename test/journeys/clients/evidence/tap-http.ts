import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { vi } from 'vitest';
import { keepsConnections } from '../../bearer-proxy.ts';
import { type Evidence, isCancellation, type WireMessage } from './evidence.ts';

interface Exchange {
  readonly method: string | undefined;
  /** The upstream's own session, where the request names one. */
  readonly session: string | undefined;
  message: WireMessage | undefined;
  status: number | undefined;
  state: 'open' | 'finished' | 'broken off';
}

export interface HttpTap {
  readonly url: string;
  /** Evidence of what comes after this moment. */
  watch(): Evidence;
  stop(): void;
}

/** Stands before a server over HTTP and takes note of what passes, changing nothing. */
export async function startHttpTap(target: string): Promise<HttpTap> {
  const { hostname, port, pathname } = new URL(target);
  const exchanges: Exchange[] = [];
  const server = createServer(keepsConnections, (inbound, outbound) => {
    const session = inbound.headers['mcp-session-id'];
    const exchange: Exchange = {
      method: inbound.method,
      session: typeof session === 'string' ? session : undefined,
      message: undefined,
      status: undefined,
      state: 'open',
    };
    exchanges.push(exchange);
    const body: Buffer[] = [];
    inbound.on('data', (chunk: Buffer) => void body.push(chunk));
    inbound.on('end', () => {
      if (body.length > 0) exchange.message = JSON.parse(Buffer.concat(body).toString()) as WireMessage;
    });
    const headers = { ...inbound.headers, host: `${hostname}:${port}` };
    const onward = request({ hostname, port, path: pathname, method: inbound.method, headers }, (response) => {
      exchange.status = response.statusCode;
      outbound.writeHead(response.statusCode ?? 502, response.headers);
      outbound.flushHeaders();
      response.pipe(outbound);
    });
    onward.on('error', () => outbound.destroy());
    outbound.on('close', () => {
      exchange.state = outbound.writableFinished ? 'finished' : 'broken off';
      onward.destroy();
    });
    inbound.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  function watch(): Evidence {
    const from = exchanges.length;
    const seen = () => exchanges.slice(from);
    const wait = <T>(look: () => T | undefined, what: string): Promise<T> =>
      vi.waitFor(
        () => {
          const found = look();
          if (found === undefined) throw new Error(`the upstream has not seen ${what}`);
          return found;
        },
        { timeout: 30_000, interval: 15 },
      );
    return {
      pids: () => [],
      async request(fits) {
        const call = await wait(
          () => seen().findLast(({ message }) => message !== undefined && fits(message)),
          'the request',
        );
        return {
          message: call.message ?? {},
          get cancelled() {
            // In the handshake era a notification says so; in the modern era the closed stream does.
            if (call.session === undefined) return call.state === 'broken off';
            return seen().some(
              ({ session, message }) =>
                session === call.session &&
                isCancellation(message?.method) &&
                message?.params?.requestId === call.message?.id,
            );
          },
          get answered() {
            return call.state === 'finished';
          },
        };
      },
      async listening() {
        // Not its answer: some servers send the head of a stream with its first event.
        await wait(() => seen().find(({ method }) => method === 'GET'), 'a GET');
      },
      async farewell() {
        await wait(() => seen().find(({ method, status }) => method === 'DELETE' && status === 200), 'a DELETE');
      },
    };
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    watch,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
