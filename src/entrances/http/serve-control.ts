import type { IncomingMessage, ServerResponse } from 'node:http';
import { problem } from '../../admin/handle.ts';
import { eventsPath } from '../../admin/routes.ts';
import { AmbitError } from '../../errors.ts';
import { type AdminDoor, respond } from '../control/answer-admin.ts';
import type { AdminCheck } from './admin-check.ts';
import { isJson } from './guards.ts';

const lookEveryMs = 1000;

/** The control API over HTTP: who is no administrator learns nothing, not even what there is. */
export async function serveControl(
  door: AdminDoor,
  adminOf: AdminCheck,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  response.setHeader('cache-control', 'no-store');
  const by = await adminOf(request);
  if (by === undefined) return refuse(request, response);
  const sent = request.headers['content-length'] ?? request.headers['transfer-encoding'] ?? '0';
  const hasBody = request.method === 'POST' || request.method === 'PATCH' || sent !== '0';
  if (hasBody && !isJson(request)) {
    request.resume();
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
function refuse(request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  const { row, code } = new AmbitError('UNAUTHENTICATED');
  const hint = 'Send "Authorization: Bearer <admin token>"; it is in the file admin-token of the data directory.';
  const refusal = problem(row.http, code, 'The request does not carry the admin token.', hint);
  respond(response, refusal, { 'www-authenticate': 'Bearer realm="ambit control"' });
}
