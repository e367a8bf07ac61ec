import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Options of a proxy that passes the headers of the server behind it on to clients: those say how long a connection may
 * stay idle, so the proxy itself must not close it earlier.
 */
export const keepsConnections = { keepAliveTimeout: 0 };

/** Adds a bearer token for clients that cannot send one, such as the conformance runner; changes nothing else. */
export async function startBearerProxy(target: string, token: string): Promise<{ url: string; stop(): void }> {
  const { hostname, port, pathname } = new URL(target);
  const server = createServer(keepsConnections, (inbound, outbound) => {
    const headers = { ...inbound.headers, authorization: `Bearer ${token}` };
    const onward = request({ hostname, port, path: pathname, method: inbound.method, headers }, (response) => {
      outbound.writeHead(response.statusCode ?? 502, response.headers);
      outbound.flushHeaders();
      response.pipe(outbound);
    });
    onward.on('error', () => outbound.destroy());
    outbound.on('close', () => onward.destroy());
    inbound.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
