import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Gateway, Refusal } from '../../gateway/gateway.ts';
import type { AdmitCaller } from './admit-caller.ts';
import type { AnswerParts } from './answer.ts';
import type { Connections } from './connections.ts';
import type { ByteBudget } from './read-body.ts';

/** The parts that all addresses of the port share. */
export interface HttpParts extends AnswerParts {
  readonly gateway: Gateway;
  readonly admitCaller: AdmitCaller;
  readonly bodies: ByteBudget;
  /** The bytes of answers that clients have not read yet. */
  readonly answers: ByteBudget;
  readonly connections: Connections;
}

/** A refusal without the fields that are read from the request. */
type RequestRefusal = Omit<Refusal, 'entrance' | 'method' | 'path' | 'address'>;

/** Records that a request was refused, and who sent it if that is known. */
export function recordRefusal(gateway: Gateway, request: IncomingMessage, refusal: RequestRefusal): void {
  const { method, url = '', socket } = request;
  const path = hideLoginTicket(pathWithoutQuery(url));
  gateway.recordRefusal({ entrance: 'http', ...refusal, method, path, address: socket.remoteAddress });
}

export function pathWithoutQuery(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

export function sendJson(response: ServerResponse, status: number, body: unknown, headers?: OutgoingHttpHeaders): void {
  const bytes = Buffer.from(JSON.stringify(body));
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length, ...headers })
    .end(bytes);
}

/** Removes the ticket from a login link, because the ticket works like a credential. */
function hideLoginTicket(path: string): string {
  return path.startsWith('/login/') ? '/login/' : path;
}
