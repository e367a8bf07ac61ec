import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { type ControlApi, sendAnswer } from '../control/control-api.ts';
import { createProblem } from '../control/route.ts';
import { isStreamAddress } from '../control/routes.ts';
import type { AdminCheck } from './admit-caller.ts';
import { isJson } from './guards.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';

const recheckMs = 1000;

/** Serves the control API over HTTP. A caller who is no administrator learns nothing about it. */
export async function serveControl(
  parts: HttpParts,
  api: ControlApi,
  adminOf: AdminCheck,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { gateway, connections } = parts;
  response.setHeader('cache-control', 'no-store');
  const by = await adminOf(request);
  if (by === undefined) return refuseRequest(parts, request, response);
  const { socket } = request;
  if (connections.assignCredential(socket, `admin ${by}`))
    response.once('close', () => connections.finishRequest(socket));
  const sent = request.headers['content-length'] ?? request.headers['transfer-encoding'] ?? '0';
  const hasBody = request.method === 'POST' || request.method === 'PATCH' || sent !== '0';
  if (hasBody && !isJson(request)) {
    recordRefusal(gateway, request, { event: 'type', status: 415, by });
    dropBody(request, response, false);
    const detail = 'The Content-Type must be application/json.';
    return sendAnswer(response, createProblem(415, 'REQUEST_INVALID', detail, 'Send JSON.'));
  }
  if (isStreamAddress(request.url ?? '')) endWhenTokenExpires(adminOf, request, response);
  await api.answer(request, response, by);
}

/** Ends an event stream when the access token of its reader has expired. */
function endWhenTokenExpires(adminOf: AdminCheck, request: IncomingMessage, response: ServerResponse): void {
  const timer = setInterval(async () => {
    if ((await adminOf(request)) === undefined) response.end();
  }, recheckMs).unref();
  response.on('close', () => clearInterval(timer));
}

function refuseRequest({ gateway, connections }: HttpParts, request: IncomingMessage, response: ServerResponse): void {
  connections.demote(request.socket);
  const { row, code } = new AmbitError('UNAUTHENTICATED');
  recordRefusal(gateway, request, { event: 'admin', status: row.http, code });
  gateway.metrics.httpRefused(row.http);
  dropBody(request, response, true);
  const hint =
    'Send "Authorization: Bearer <admin token>". The token is in the file admin-token in the data directory.';
  const refusal = createProblem(row.http, code, 'The request has no valid admin token.', hint);
  sendAnswer(response, refusal, { 'www-authenticate': 'Bearer realm="ambit control"' });
}
