import type { IncomingMessage } from 'node:http';
import type { Gateway, Refusal } from '../../gateway/gateway.ts';
import type { AdmitCaller } from './admit-caller.ts';
import type { Connections } from './connections.ts';
import type { ByteBudget } from './read-body.ts';

/** What all addresses of the port share. */
export interface HttpParts {
  readonly gateway: Gateway;
  readonly admitCaller: AdmitCaller;
  readonly bodies: ByteBudget;
  /** Of answers that their clients have not read. */
  readonly answers: ByteBudget;
  readonly connections: Connections;
}

/** What a request says of a refusal by itself. */
type RequestRefusal = Omit<Refusal, 'entrance' | 'method' | 'path' | 'address'>;

/** Writes down that a request was refused, and by whom it was sent as far as that is known. */
export function recordRefusal(gateway: Gateway, request: IncomingMessage, refusal: RequestRefusal): void {
  const { method, url = '', socket } = request;
  const path = pathWithoutQuery(url);
  gateway.recordRefusal({
    entrance: 'http',
    ...refusal,
    method,
    path: hideLoginTicket(path),
    address: socket.remoteAddress,
  });
}

/** The address without what was asked there. */
export function pathWithoutQuery(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

/** A link to log in with is as good as a credential. */
function hideLoginTicket(path: string): string {
  return path.startsWith('/login/') ? '/login/' : path;
}
