import { AmbitError, isAmbitError } from '../errors.ts';
import { accepted, type Reply } from '../protocol/channel.ts';
import { refusedCall, refusedRequest } from '../protocol/compose-message.ts';
import { askToLogIn } from './ask-to-log-in.ts';
import type { Arrived } from './exchange.ts';

export function asAmbitError(error: unknown): AmbitError {
  return isAmbitError(error) ? error : new AmbitError('INTERNAL', { cause: error });
}

/** Turns a refusal into what the caller's protocol makes of it. */
export function refuse(exchange: Arrived, error: AmbitError): Reply {
  const { message } = exchange;
  if (message.id === undefined || message.kind !== 'request') {
    const reply = untaken(exchange, refusedRequest('null', error), error.row.http);
    return error.scopes === undefined || reply.kind === 'accepted' ? reply : { ...reply, scopes: error.scopes };
  }
  // A caller without a credential has no business reading results: it gets the status its client acts on.
  if (asksForToken.has(error.code)) return withStatus(refusedRequest(message.id, error), error);
  const asked = error.link === undefined ? undefined : askToLogIn(exchange, error);
  if (asked !== undefined) return { kind: 'message', bytes: asked };
  if (message.method === 'tools/call') {
    return { kind: 'message', bytes: refusedCall(message.id, error, exchange.era === 'modern') };
  }
  return { kind: 'message', bytes: refusedRequest(message.id, error) };
}

/** What a client answers with another token, or by waiting for the identity provider. */
const asksForToken = new Set(['UNAUTHENTICATED', 'INSUFFICIENT_SCOPE', 'IDENTITY_UNAVAILABLE']);

function withStatus(bytes: Buffer, { row, scopes }: AmbitError): Reply {
  return { kind: 'message', bytes, status: row.http, ...(scopes === undefined ? {} : { scopes }) };
}

/** Nobody waits for an answer to a notification; over HTTP the status still tells that it was not taken. */
export function untaken(exchange: Arrived, bytes: Buffer, status: number): Reply {
  return exchange.entrance === 'http' ? { kind: 'message', bytes, status: Math.max(status, 400) } : accepted;
}
