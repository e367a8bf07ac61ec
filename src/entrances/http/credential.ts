import type { IncomingMessage } from 'node:http';
import type { Credential } from '../../identity/principal.ts';
import { isLoopback } from './guards.ts';

/** What the request carries to prove who sends it; proven is nothing yet. */
export function credentialOf(request: IncomingMessage): Credential {
  const { authorization } = request.headers;
  const loopback = isLoopback(request.socket.remoteAddress);
  if (authorization === undefined) return { kind: 'none', loopback };
  const token = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(authorization);
  return { kind: 'bearer', token: token?.[1] ?? '', loopback };
}
