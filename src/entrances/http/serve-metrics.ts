import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Gateway } from '../../gateway/gateway.ts';
import { metricsContentType } from '../../observability/metrics/metrics.ts';
import type { CallerCheck } from './admit-caller.ts';
import { isLoopback, namesLoopback } from './guards.ts';
import { recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';

/** Serves GET /metrics. It is open to this machine; others need a credential of the control API. */
export async function serveMetrics(
  gateway: Gateway,
  findCaller: CallerCheck,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  dropBody(request, response, true);
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    recordRefusal(gateway, request, { event: 'method', status: 405 });
    refuseRequest(gateway, response, 405, { allow: 'GET, HEAD' });
    return;
  }
  if (!isLocalRequest(gateway, request) && (await findCaller(request)) === undefined) {
    recordRefusal(gateway, request, { event: 'admin', status: 401 });
    refuseRequest(gateway, response, 401, { 'www-authenticate': 'Bearer realm="ambit"' });
    return;
  }
  const bytes = Buffer.from(await gateway.metrics.text());
  response.writeHead(200, {
    'content-type': metricsContentType,
    'content-length': bytes.length,
    'cache-control': 'no-store',
  });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

const proxyHeaders = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'] as const;

/**
 * Tells whether a request comes from this machine itself. A local proxy or tunnel makes strangers look local, so its
 * headers and its host name are checked.
 */
function isLocalRequest(gateway: Gateway, request: IncomingMessage): boolean {
  if (gateway.config.listen.behindProxy || !isLoopback(request.socket.remoteAddress)) return false;
  return namesLoopback(request.headers.host) && proxyHeaders.every((name) => request.headers[name] === undefined);
}

function refuseRequest(
  gateway: Gateway,
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
): void {
  gateway.metrics.httpRefused(status);
  response.writeHead(status, { ...headers, 'content-length': 0 }).end();
}
