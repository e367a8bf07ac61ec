import { AmbitError, isAmbitError } from '../errors.ts';
import { acceptedReply, type FinalReply } from '../protocol/channel.ts';
import { composeCallRefusal, composeError, composeRequestRefusal, composeResult } from '../protocol/compose-message.ts';
import { type Edit, removeMembers } from '../protocol/json/edit.ts';
import { findMember, type JsonMember, type ObjectShape, readShape } from '../protocol/json/scan.ts';
import type { Message } from '../protocol/message.ts';
import type { Caller } from '../upstreams/links/caller.ts';
import type { Exchange } from './exchange.ts';

/** The key of the question to a modern client. */
const loginQuestion = 'ambit/login';
const firstVersionWithLinks = '2025-11-25';
const elicitationRequired = -32042;

export function asAmbitError(error: unknown): AmbitError {
  return isAmbitError(error) ? error : new AmbitError('INTERNAL', { cause: error });
}

/** Turns an error into a reply of the caller's protocol. */
export function createRefusal(exchange: Exchange, error: AmbitError): FinalReply {
  const { message } = exchange;
  if (message.id === undefined || message.kind !== 'request') {
    const reply = rejectNotification(exchange, composeRequestRefusal('null', error), error.row.http);
    return error.scopes === undefined || reply.kind === 'accepted' ? reply : { ...reply, scopes: error.scopes };
  }
  // A caller without a credential gets a status that its client understands, not a result.
  if (tokenErrorCodes.has(error.code)) return withHttpStatus(composeRequestRefusal(message.id, error), error);
  const asked = error.link === undefined ? undefined : askToLogIn(exchange, error);
  if (asked !== undefined) return { kind: 'message', bytes: asked };
  if (message.method === 'tools/call') {
    return { kind: 'message', bytes: composeCallRefusal(message.id, error, exchange.era === 'modern') };
  }
  return { kind: 'message', bytes: composeRequestRefusal(message.id, error) };
}

/** The errors that a client answers with another token or by waiting for the identity provider. */
const tokenErrorCodes = new Set(['UNAUTHENTICATED', 'INSUFFICIENT_SCOPE', 'IDENTITY_UNAVAILABLE']);

function withHttpStatus(bytes: Buffer, { row, scopes }: AmbitError): FinalReply {
  return { kind: 'message', bytes, status: row.http, ...(scopes === undefined ? {} : { scopes }) };
}

/** Rejects a notification. It has no answer, but over HTTP the status tells that it was rejected. */
export function rejectNotification(exchange: Exchange, bytes: Buffer, status: number): FinalReply {
  return exchange.entrance === 'http' ? { kind: 'message', bytes, status: Math.max(status, 400) } : acceptedReply;
}

/**
 * Asks the person for a login through a client that can show links: with an error before 2026-07-28, with a question
 * since then. Undefined if the client cannot show links or was asked already: then the model gets the text.
 */
function askToLogIn(exchange: Exchange, { link, message: words }: AmbitError): Buffer | undefined {
  const { message, era } = exchange;
  if (link === undefined || message.id === undefined || message.method !== 'tools/call') return undefined;
  const params = { mode: 'url', url: link, message: words };
  if (era === 'modern') {
    const capabilities = findMember(message.meta, 'io.modelcontextprotocol/clientCapabilities');
    if (!canShowLinks(message, capabilities) || findLoginAnswer(message) !== undefined) return undefined;
    const inputRequests = { [loginQuestion]: { method: 'elicitation/create', params } };
    return composeResult(message.id, JSON.stringify({ resultType: 'input_required', inputRequests }));
  }
  const { caller } = exchange as { readonly caller?: Caller | undefined };
  if (caller === undefined || caller.version < firstVersionWithLinks) return undefined;
  const { initialize } = caller;
  if (!canShowLinks(initialize, findMember(initialize.params?.shape, 'capabilities'))) return undefined;
  const elicitations = [{ ...params, elicitationId: exchange.correlationId }];
  return composeError(message.id, elicitationRequired, words, { elicitations });
}

/** Removes the answer to the login question, because the server did not ask it. */
export function removeLoginAnswer(message: Message): readonly Edit[] {
  const params = message.params?.shape;
  if (params === undefined || findLoginAnswer(message) === undefined) return [];
  return removeMembers(params, ({ key }) => key === 'inputResponses');
}

function findLoginAnswer(message: Message): JsonMember | undefined {
  return findMember(readMemberShape(message, findMember(message.params?.shape, 'inputResponses')), loginQuestion);
}

function canShowLinks(message: Message, capabilities: JsonMember | undefined): boolean {
  const elicitation = findMember(readMemberShape(message, capabilities), 'elicitation');
  return findMember(readMemberShape(message, elicitation), 'url') !== undefined;
}

function readMemberShape(message: Message, member: JsonMember | undefined): ObjectShape | undefined {
  return member === undefined ? undefined : readShape(message.bytes, member);
}
