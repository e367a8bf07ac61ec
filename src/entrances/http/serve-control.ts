import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { type AdminDoor, respond } from '../control/control-api.ts';
import { problem } from '../control/route.ts';
import { eventsPath } from '../control/routes.ts';
import type { AdminCheck } from './admit-caller.ts';
import { isJson } from './guards.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';

const lookEveryMs = 1000;

/** The control API over HTTP: who is no administrator learns nothing, not even what there is. */
export async function serveControl(
  parts: HttpParts,
  door: AdminDoor,
  adminOf: AdminCheck,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { gateway, connections } = parts;
  response.setHeader('cache-control', 'no-store');
  const by = await adminOf(request);
  if (by === undefined) return refuse(parts, request, response);
  const { socket } = request;
  if (connections.prove(socket, `admin ${by}`)) response.once('close', () => connections.finish(socket));
  const sent = request.headers['content-length'] ?? request.headers['transfer-encoding'] ?? '0';
  const hasBody = request.method === 'POST' || request.method === 'PATCH' || sent !== '0';
  if (hasBody && !isJson(request)) {
    recordRefusal(gateway, request, { event: 'type', status: 415, by });
    dropBody(request, response, false);
    respond(response, problem(415, 'REQUEST_INVALID', 'The Content-Type must be application/json.', 'Send JSON.'));
    return;
  }
  if (request.url?.startsWith(eventsPath) === true) endWithLeave(adminOf, request, response);
  await door.answer(request, response, by);
}

/** An access token expires; whoever reads on has to show another. */
function endWithLeave(adminOf: AdminCheck, request: IncomingMessage, response: ServerResponse): void {
  const timer = setInterval(async () => {
    if ((await adminOf(request)) === undefined) response.end();
  }, lookEveryMs).unref();
  response.on('close', () => clearInterval(timer));
}

/** Without a credential of an administrator, whatever else was sent. */
function refuse({ gateway, connections }: HttpParts, request: IncomingMessage, response: ServerResponse): void {
  connections.demote(request.socket);
  const { row, code } = new AmbitError('UNAUTHENTICATED');
  recordRefusal(gateway, request, { event: 'admin', status: row.http, code });
  gateway.metrics.httpRefused(row.http);
  dropBody(request, response, true);
  const hint = 'Send "Authorization: Bearer <admin token>"; it is in the file admin-token of the data directory.';
  const refusal = problem(row.http, code, 'The request does not carry the admin token.', hint);
  respond(response, refusal, { 'www-authenticate': 'Bearer realm="ambit control"' });
}
