import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { createExchange, type Exchange, emptyJournalDraft } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { refuseAmbiguousKeys } from '../../protocol/ambiguous-keys.ts';
import type { Era, FinalReply } from '../../protocol/channel.ts';
import { composeError, composeRequestRefusal } from '../../protocol/compose-message.ts';
import { ScanError, scanArray } from '../../protocol/json/scan.ts';
import { type Message, MessageError, maxClientValues, readClientMessage } from '../../protocol/message.ts';
import { type EnvelopeError, findEnvelopeError, readClaimedVersion } from '../../protocol/modern-envelope.ts';
import type { TraceHeaders } from '../../protocol/trace.ts';
import { batchVersion, handshakeVersions } from '../../protocol/versions.ts';
import { type AdmittedCaller, getCredential } from './admit-caller.ts';
import { type Answer, createAnswer } from './answer.ts';
import { isJson } from './guards.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { type BodyFailure, dropBody, readBody } from './read-body.ts';
import type { RequestGroups } from './request-groups.ts';
import { createChallenge } from './resource-metadata.ts';

const openBracket = 0x5b;
const maxBatchElements = 64;

/** One POST of a caller who may send a body. */
interface PostRequest {
  readonly gateway: Gateway;
  readonly server: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: AdmittedCaller;
  readonly answer: Answer;
  readonly groups: RequestGroups;
}

/** Serves POST /mcp/{server}: one message per body. The body is read only when the sender is known. */
export async function servePost(
  parts: HttpParts,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { gateway, admitCaller, answers, bodies, groups } = parts;
  const answer = createAnswer(request, response, parts);
  const admitted = admitCaller(request, response);
  const caller = admitted instanceof Promise ? await admitted : admitted;
  if (caller instanceof AmbitError) {
    refuseCaller(gateway, server, request, response, answer, caller);
    return;
  }
  answer.limitUnread(answers.open(caller.key));
  const post: PostRequest = { gateway, server, request, response, caller, answer, groups };
  if (!isJson(request)) {
    const message = 'The Content-Type must be application/json';
    refusePost(post, { event: 'type', status: 415, rpc: -32600, message });
    return;
  }
  const reserved = bodies.open(caller.key);
  try {
    const body = await readBody(request, response, {
      maxBytes: gateway.config.limits.bodyBytes,
      reserved,
      onGone: (listener) => answer.channel.onGone(listener),
    });
    if (typeof body === 'string') refuseBody(post, body);
    else {
      const others = groups.join();
      if (others !== undefined) await others;
      await serveBody(post, body);
    }
  } finally {
    reserved.release();
  }
}

/** Refuses an unproven caller without reading the body. */
export function refuseCaller(
  gateway: Gateway,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  refusal: AmbitError,
): void {
  const { code, row, rule } = refusal;
  const event = code === 'OVERLOADED' ? 'connection' : 'credential';
  recordRefusal(gateway, request, { event, status: row.http, code, detail: rule });
  dropBody(request, response, true);
  const headers = row.http === 401 ? createChallenge(gateway, server, request, undefined) : undefined;
  answer.finish(composeRequestRefusal('null', refusal), row.http, headers);
}

function refuseBody(post: PostRequest, why: BodyFailure): void {
  if (why === 'too long') {
    const message = 'The body is longer than limits.bodyBytes allows';
    refusePost(post, { event: 'length', status: 413, rpc: -32600, message });
  } else if (why === 'no room') {
    const { answer, request, response, caller, gateway } = post;
    const refusal = new AmbitError('OVERLOADED', { what: 'The gateway is holding too many request bytes.' });
    recordRefusal(gateway, request, { event: 'overload', status: 503, code: refusal.code, ...caller.names });
    dropBody(request, response, caller.isStranger);
    answer.finish(composeRequestRefusal('null', refusal), refusal.row.http, { 'retry-after': '1' });
  }
}

async function serveBody(post: PostRequest, body: Buffer): Promise<void> {
  const { gateway, server, request, answer, groups } = post;
  const base = readRequestBase(server, request);
  if (body[findFirstByte(body)] === openBracket) {
    await serveBatch(post, base, body);
    return;
  }
  let message: Message;
  try {
    message = readClientMessage(body);
    refuseAmbiguousKeys(message);
  } catch (error) {
    if (!(error instanceof MessageError)) throw error;
    const rpc = error.isNotJson ? -32700 : -32600;
    refusePost(post, { event: 'message', status: 400, rpc, message: error.message, id: error.id });
    return;
  }
  if (message.kind === 'notification') {
    // A cancellation must not overtake its call, which takes more steps and may be in the same group.
    const ahead = groups.join();
    if (ahead !== undefined) await ahead;
  }
  const era = findEra(message, request);
  const wrong = era === 'modern' ? findModernFault(message, request) : findHandshakeFault(message, request);
  if (wrong !== undefined) {
    refusePost(post, { status: 400, ...wrong, event: 'envelope', id: message.id ?? 'null' });
    return;
  }
  const reply = await gateway.serve(createHttpExchange(base, era, message, answer));
  const others = groups.join();
  if (others !== undefined) await others;
  sendReply(gateway, server, request, answer, reply);
}

/**
 * Serves a JSON-RPC batch. Only revision 2025-03-26 has batches, so only clients that negotiated it may send one. Each
 * message passes the pipeline on its own.
 */
async function serveBatch(post: PostRequest, base: HttpRequestBase, body: Buffer): Promise<void> {
  const { gateway, request, answer } = post;
  // The pipeline checks the caller first: a stranger must not learn that a transport session exists.
  const result = await gateway.handleTransport({
    ...base,
    era: 'handshake',
    entry: emptyJournalDraft(),
    intent: 'batch',
    channel: answer.channel,
  });
  if (result.kind === 'refused') {
    sendReply(gateway, base.server, request, answer, { ...result, kind: 'message' });
    return;
  }
  if (result.kind !== 'known' || result.version !== batchVersion) {
    const message = 'This protocol version has no batches: send one message per request';
    refusePost(post, { event: 'batch', status: 400, rpc: -32600, message });
    return;
  }
  let messages: Message[];
  try {
    messages = scanArray(body, maxBatchElements, maxClientValues).map((element) => {
      const message = readClientMessage(element);
      refuseAmbiguousKeys(message);
      if (message.method === 'initialize' || readClaimedVersion(message) !== undefined) {
        throw new MessageError('this message cannot be part of a batch', false);
      }
      return message;
    });
    if (messages.length === 0) throw new MessageError('the batch is empty', false);
  } catch (error) {
    if (!(error instanceof MessageError) && !(error instanceof ScanError)) throw error;
    const rpc = error instanceof ScanError || error.isNotJson ? -32700 : -32600;
    refusePost(post, { event: 'message', status: 400, rpc, message: error.message });
    return;
  }
  const replies = await Promise.all(
    messages.map((message) => gateway.serve(createHttpExchange(base, 'handshake', message, answer))),
  );
  const said = replies.flatMap((reply, index) =>
    reply.kind === 'message' && messages[index]?.kind === 'request' ? [reply.bytes] : [],
  );
  answer.reportDelivery(replies.flatMap((reply) => (reply.kind === 'message' ? (reply.delivery ?? []) : [])));
  if (said.length === 0) answer.finishEmpty(202);
  else if (answer.isStreaming()) {
    for (const bytes of said) answer.channel.emit(bytes);
    answer.finishEmpty(200);
  } else answer.finish(joinElements(said), 200);
}

function joinElements(elements: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const [index, element] of elements.entries()) parts.push(Buffer.from(index === 0 ? '[' : ','), element);
  parts.push(Buffer.from(']'));
  return Buffer.concat(parts);
}

function findModernFault(message: Message, { headers }: IncomingMessage): EnvelopeError | undefined {
  return findEnvelopeError(message, {
    version: joinHeader(headers['mcp-protocol-version']),
    method: joinHeader(headers['mcp-method']),
    name: joinHeader(headers['mcp-name']),
  });
}

function findHandshakeFault(message: Message, { headers }: IncomingMessage): EnvelopeError | undefined {
  const version = joinHeader(headers['mcp-protocol-version']);
  if (version === undefined || message.method === 'initialize' || isHandshakeVersion(version)) return undefined;
  return { rpc: -32000, message: 'Bad Request: Unsupported protocol version' };
}

type HttpRequestBase = Omit<Exchange, 'message' | 'channel' | 'era' | 'entry' | 'correlationId' | 'trace'> & {
  readonly traceHeaders: TraceHeaders | undefined;
};

function createHttpExchange(
  base: HttpRequestBase,
  era: Era,
  message: Message,
  answer: Pick<Answer, 'channel' | 'waitFor'>,
): Exchange {
  const exchange = createExchange({
    entrance: 'http',
    era,
    server: base.server,
    credential: base.credential,
    // Modern requests have no transport session, so the header is ignored.
    transportId: era === 'modern' ? undefined : base.transportId,
    headers: base.headers,
    traceHeaders: base.traceHeaders,
    message,
    channel: answer.channel,
  });
  answer.waitFor(exchange);
  return exchange;
}

export function sendReply(
  gateway: Gateway,
  server: string,
  request: IncomingMessage,
  answer: Answer,
  reply: FinalReply,
): void {
  if (reply.kind === 'accepted') {
    answer.finishEmpty(202);
    return;
  }
  const status = reply.status ?? 200;
  const { transportId, scopes } = reply;
  const transport = transportId === undefined ? undefined : { 'mcp-session-id': transportId };
  const asks = status === 401 || scopes !== undefined;
  if (reply.delivery !== undefined) answer.reportDelivery([reply.delivery]);
  answer.finish(reply.bytes, status, asks ? createChallenge(gateway, server, request, scopes) : transport);
}

interface PostRefusal extends EnvelopeError {
  readonly event: 'type' | 'length' | 'message' | 'envelope' | 'batch';
  readonly status: number;
  /** The text of the message id, if known. */
  readonly id?: string;
}

/** Refuses a request that is not a valid message, and records it. */
function refusePost(post: PostRequest, { event, status, rpc, message, data, id = 'null' }: PostRefusal): void {
  const { gateway, request, response, caller, answer } = post;
  recordRefusal(gateway, request, { event, status, code: String(rpc), detail: message, ...caller.names });
  if (!request.complete) dropBody(request, response, caller.isStranger);
  answer.finish(composeError(id, rpc, message, data), status);
}

function readRequestBase(server: string, request: IncomingMessage): HttpRequestBase {
  return {
    entrance: 'http',
    server,
    credential: getCredential(request),
    transportId: joinHeader(request.headers['mcp-session-id']),
    headers: () => readParamHeaders(request),
    traceHeaders: readTraceHeaders(request),
  };
}

function readTraceHeaders({ headers }: IncomingMessage): TraceHeaders | undefined {
  const parent = joinHeader(headers['traceparent']);
  return parent === undefined ? undefined : { parent, state: joinHeader(headers['tracestate']) };
}

/** Finds the era of a message. Without a revision it belongs to the handshake era, unless its header says otherwise. */
function findEra(message: Message, request: IncomingMessage): Era {
  if (readClaimedVersion(message) !== undefined) return 'modern';
  const version = joinHeader(request.headers['mcp-protocol-version']);
  if (message.method === 'initialize' || version === undefined || isHandshakeVersion(version)) return 'handshake';
  return version >= '2026' && message.kind !== 'response' ? 'modern' : 'handshake';
}

function isHandshakeVersion(version: string): boolean {
  return handshakeVersions.includes(version) || version === '2024-11-05';
}

function readParamHeaders(request: IncomingMessage): Record<string, string> {
  let found: Record<string, string> | undefined;
  for (const name in request.headers) {
    if (!name.startsWith('mcp-param-')) continue;
    found ??= {};
    found[name] = joinHeader(request.headers[name]) ?? '';
  }
  return found ?? noHeaders;
}

const noHeaders: Record<string, string> = Object.freeze({});

function joinHeader(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

function findFirstByte(body: Buffer): number {
  let at = 0;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++;
  return at;
}
