import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Credential, Origin } from '../../identity/principal.ts';
import { presentedToken } from '../../identity/token.ts';
import { isLoopback } from './guards.ts';

interface Seen {
  readonly authorization: string | undefined;
  readonly credential: Credential;
}

/** A client says the same on every request of a connection: what it said is read and hashed once, and proven each time. */
const lastSeen = new WeakMap<Socket, Seen>();

/** Connections of this machine that belong to another account: they count as if they came from another machine. */
const foreign = new WeakSet<Socket>();

/** To be said before a credential of this connection is used. */
export function markForeign(socket: Socket): void {
  foreign.add(socket);
  lastSeen.delete(socket);
}

/** What the request carries to prove who sends it; proven is nothing yet. */
export function credentialOf(request: IncomingMessage): Credential {
  const { authorization } = request.headers;
  const seen = lastSeen.get(request.socket);
  if (seen !== undefined && seen.authorization === authorization) return seen.credential;
  const { socket } = request;
  const address = socket.remoteAddress;
  const credential = readCredential(authorization, { loopback: isLoopback(address) && !foreign.has(socket), address });
  lastSeen.set(socket, { authorization, credential });
  return credential;
}

function readCredential(authorization: string | undefined, origin: Origin): Credential {
  if (authorization === undefined) return { kind: 'none', ...origin };
  // Access tokens that list the groups of their user are long; Node bounds all headers together.
  const token = /^Bearer +([\x21-\x7e]{1,12288})$/i.exec(authorization)?.[1] ?? '';
  return { kind: 'bearer', presented: presentedToken(token), ...origin };
}
