import { AmbitError, isAmbitError } from '../errors.ts';
import { accepted, type Reply } from '../protocol/channel.ts';
import { errorMessage, refusedCall, refusedRequest, resultMessage } from '../protocol/compose.ts';
import { type Edit, removeMembers } from '../protocol/json/edit.ts';
import { type Member, memberOf, type Shape, shapeAt } from '../protocol/json/scan.ts';
import type { Message } from '../protocol/message.ts';
import type { Caller } from '../upstreams/links/caller.ts';
import type { Arrived } from './exchange.ts';

/** What the question is called between us and a modern client. */
const question = 'ambit/login';

const firstWithLinks = '2025-11-25';

const elicitationRequired = -32042;

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

/**
 * A login that is wanted, as a client that shows links to people is asked for it: by an error before 2026-07-28, by a
 * question since. Undefined where the client cannot, or was asked already: then the model reads what to do.
 */
function askToLogIn(exchange: Arrived, { link, message: words }: AmbitError): Buffer | undefined {
  const { message, era } = exchange;
  if (link === undefined || message.id === undefined || message.method !== 'tools/call') return undefined;
  const params = { mode: 'url', url: link, message: words };
  if (era === 'modern') {
    const capabilities = memberOf(message.meta, 'io.modelcontextprotocol/clientCapabilities');
    if (!showsLinks(message, capabilities) || answerIn(message) !== undefined) return undefined;
    const inputRequests = { [question]: { method: 'elicitation/create', params } };
    return resultMessage(message.id, JSON.stringify({ resultType: 'input_required', inputRequests }));
  }
  const { caller } = exchange as { readonly caller?: Caller | undefined };
  if (caller === undefined || caller.version < firstWithLinks) return undefined;
  const { initialize } = caller;
  if (!showsLinks(initialize, memberOf(initialize.params?.shape, 'capabilities'))) return undefined;
  const elicitations = [{ ...params, elicitationId: exchange.correlationId }];
  return errorMessage(message.id, elicitationRequired, words, { elicitations });
}

/** The answer to that question is ours; the server never asked. */
export function withoutLoginAnswer(message: Message): readonly Edit[] {
  const params = message.params?.shape;
  if (params === undefined || answerIn(message) === undefined) return [];
  return removeMembers(params, ({ key }) => key === 'inputResponses');
}

function answerIn(message: Message): Member | undefined {
  return memberOf(within(message, memberOf(message.params?.shape, 'inputResponses')), question);
}

function showsLinks(message: Message, capabilities: Member | undefined): boolean {
  const elicitation = memberOf(within(message, capabilities), 'elicitation');
  return memberOf(within(message, elicitation), 'url') !== undefined;
}

function within(message: Message, member: Member | undefined): Shape | undefined {
  return member === undefined ? undefined : shapeAt(message.bytes, member);
}
