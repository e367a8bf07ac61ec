import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { type ControlApi, sendAnswer } from '../control/control-api.ts';
import { createProblem } from '../control/route.ts';
import { consolesPath } from '../control/routes/consoles.ts';
import { isStreamAddress } from '../control/routes.ts';
import type { CallerCheck } from './admit-caller.ts';
import { createPageCheck, isJson } from './guards.ts';
import { type HttpParts, pathWithoutQuery, recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';
import { createSignIn } from './sign-in.ts';

const recheckMs = 1000;

/** Answers a request to `/api/…`. */
export type ServeControl = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/**
 * Serves the control API over HTTP. A page that is not of this gateway is refused whatever credential it sends, and a
 * caller without a credential learns nothing.
 */
export function createServeControl(parts: HttpParts, api: ControlApi, findCaller: CallerCheck): ServeControl {
  const { gateway, connections } = parts;
  const isForeignPage = createPageCheck(gateway.config.listen);
  const signIn = createSignIn(parts);

  return async function serveControl(request, response) {
    response.setHeader('cache-control', 'no-store');
    response.setHeader('x-content-type-options', 'nosniff');
    if (isForeignPage(request)) return refusePage(parts, request, response);
    const caller = await findCaller(request);
    // The end of a response is told once. What would be opened for a sender that has left would stay open.
    if (response.destroyed) return;
    if (caller === undefined) {
      return isSignIn(request) ? signIn(request, response) : refuseStranger(parts, request, response);
    }
    const { socket } = request;
    const { by, consoleId } = caller;
    const credential = consoleId === undefined ? `admin ${by}` : `console ${consoleId}`;
    if (connections.assignCredential(socket, credential))
      response.once('close', () => connections.finishRequest(socket));
    const sent = request.headers['content-length'] ?? request.headers['transfer-encoding'] ?? '0';
    if (sent !== '0' && !isJson(request)) {
      recordRefusal(gateway, request, { event: 'type', status: 415, by, consoleId });
      dropBody(request, response, false);
      const detail = 'The Content-Type must be application/json.';
      return sendAnswer(response, createProblem(415, 'REQUEST_INVALID', detail, 'Send JSON.'));
    }
    const isAllowed = async () => (await findCaller(request)) !== undefined;
    if (isStreamAddress(request.url ?? '')) endWithCredential(consoleId, isAllowed, response);
    await api.answer(request, response, caller, isAllowed);
  };

  /** Ends an event stream when its reader is signed out, or when the credential of its reader has expired. */
  function endWithCredential(
    consoleId: string | undefined,
    isAllowed: () => Promise<boolean>,
    response: ServerResponse,
  ): void {
    const timer = setInterval(async () => {
      if (!(await isAllowed())) response.end();
    }, recheckMs).unref();
    const { consoles } = gateway.running;
    const forget = consoleId === undefined ? () => {} : consoles.onEnd(consoleId, () => void response.end());
    response.on('close', () => {
      clearInterval(timer);
      forget();
    });
  }
}

/** Tells whether a request without a valid credential may bring a sign-in code instead. */
function isSignIn({ method, url = '', headers }: IncomingMessage): boolean {
  return method === 'POST' && pathWithoutQuery(url) === consolesPath && headers.authorization === undefined;
}

function refusePage({ gateway, connections }: HttpParts, request: IncomingMessage, response: ServerResponse): void {
  connections.demote(request.socket);
  const { row, code } = new AmbitError('PERMISSION_DENIED');
  recordRefusal(gateway, request, { event: 'origin', status: row.http, code });
  gateway.metrics.httpRefused(row.http);
  dropBody(request, response, true);
  const hint = 'If the console is behind a proxy, set listen.publicUrl. For another page, set listen.allowedOrigins.';
  sendAnswer(response, createProblem(row.http, code, 'A page of another origin sent the request.', hint));
}

function refuseStranger({ gateway, connections }: HttpParts, request: IncomingMessage, response: ServerResponse): void {
  connections.demote(request.socket);
  const { row, code } = new AmbitError('UNAUTHENTICATED');
  recordRefusal(gateway, request, { event: 'admin', status: row.http, code });
  gateway.metrics.httpRefused(row.http);
  dropBody(request, response, true);
  const hint =
    'Send "Authorization: Bearer <admin token>". The token is in the file admin-token in the data directory.';
  const refusal = createProblem(row.http, code, 'The request has no credential for the control API.', hint);
  sendAnswer(response, refusal, { 'www-authenticate': 'Bearer realm="ambit control"' });
}
