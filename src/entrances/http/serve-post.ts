import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import { type Arrived, newExchange } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Era, Reply } from '../../protocol/channel.ts';
import { errorMessage, refusedRequest } from '../../protocol/compose.ts';
import { refuseAmbiguousKeys } from '../../protocol/envelope-keys.ts';
import { type Message, MessageFault, readClientMessage } from '../../protocol/message.ts';
import { claimedVersion, type EnvelopeFault, envelopeFault } from '../../protocol/modern-envelope.ts';
import type { TraceHeaders } from '../../protocol/trace.ts';
import { handshakeVersions } from '../../protocol/versions.ts';
import { type AdmittedCaller, credentialOf } from './admit-caller.ts';
import { type Answer, createAnswer } from './answer.ts';
import { isJson } from './guards.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody, type NoBody, readBody } from './read-body.ts';
import { challenge } from './resource-metadata.ts';
import { serveBatch } from './serve-batch.ts';

const openBracket = 0x5b;

/** What belongs to one POST of somebody who may send a body. */
export interface Posted {
  readonly gateway: Gateway;
  readonly server: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: AdmittedCaller;
  readonly answer: Answer;
}

/** POST /mcp/{server}: one message a body, its answer in the response. The body is read once it is known who sends it. */
export async function servePost(
  { gateway, admitCaller, answers, bodies }: HttpParts,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answer = createAnswer(request, response, gateway.metrics.httpRefused);
  const caller = await admitCaller(request, response);
  if (caller instanceof AmbitError) {
    refuseCaller(gateway, server, request, response, answer, caller);
    return;
  }
  answer.bound(answers.open(caller.key));
  const posted: Posted = { gateway, server, request, response, caller, answer };
  if (!isJson(request)) {
    refuse(posted, { event: 'type', status: 415, rpc: -32600, message: 'The Content-Type must be application/json' });
    return;
  }
  const held = bodies.open(caller.key);
  try {
    const body = await readBody(request, response, {
      maxBytes: gateway.config.limits.bodyBytes,
      held,
      onGone: (listener) => answer.channel.onGone(listener),
    });
    if (typeof body === 'string') refuseBody(posted, body);
    else await serveBody(posted, body);
  } finally {
    held.release();
  }
}

/** Answers whoever proved nothing, without reading what they send. */
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
  const headers = row.http === 401 ? challenge(gateway, server, request, undefined) : undefined;
  answer.finish(refusedRequest('null', refusal), row.http, headers);
}

function refuseBody(posted: Posted, why: NoBody): void {
  if (why === 'too long') {
    const message = 'The body is longer than limits.bodyBytes allows';
    refuse(posted, { event: 'length', status: 413, rpc: -32600, message });
  } else if (why === 'no room') {
    const { answer, request, response, caller, gateway } = posted;
    const refusal = new AmbitError('OVERLOADED', { what: 'Too many bytes of requests are kept at once.' });
    recordRefusal(gateway, request, { event: 'overload', status: 503, code: refusal.code, ...caller.who });
    dropBody(request, response, caller.isStranger);
    answer.finish(refusedRequest('null', refusal), refusal.row.http, { 'retry-after': '1' });
  }
}

async function serveBody(posted: Posted, body: Buffer): Promise<void> {
  const { gateway, server, request, answer } = posted;
  const approach = approachOf(server, request);
  if (body[firstByte(body)] === openBracket) {
    await serveBatch(posted, approach, body);
    return;
  }
  let message: Message;
  try {
    message = readClientMessage(body);
    refuseAmbiguousKeys(message);
  } catch (error) {
    if (!(error instanceof MessageFault)) throw error;
    const rpc = error.notJson ? -32700 : -32600;
    refuse(posted, { event: 'message', status: 400, rpc, message: error.message, id: error.id });
    return;
  }
  const era = eraOf(message, request);
  const wrong = era === 'modern' ? modernFault(message, request) : handshakeFault(message, request);
  if (wrong !== undefined) {
    refuse(posted, { ...wrong, event: 'envelope', status: 400, id: message.id ?? 'null' });
    return;
  }
  const reply = await gateway.serve(arrived(approach, era, message, answer));
  finish(gateway, server, request, answer, reply);
}

function modernFault(message: Message, { headers }: IncomingMessage): EnvelopeFault | undefined {
  return envelopeFault(message, {
    version: header(headers['mcp-protocol-version']),
    method: header(headers['mcp-method']),
    name: header(headers['mcp-name']),
  });
}

function handshakeFault(message: Message, { headers }: IncomingMessage): EnvelopeFault | undefined {
  const version = header(headers['mcp-protocol-version']);
  if (version === undefined || message.method === 'initialize' || isHandshakeVersion(version)) return undefined;
  return { rpc: -32000, message: 'Bad Request: Unsupported protocol version' };
}

export type HttpApproach = Omit<Arrived, 'message' | 'channel' | 'era' | 'entry' | 'correlationId' | 'trace'> & {
  readonly traceHeaders: TraceHeaders | undefined;
};

export function arrived(approach: HttpApproach, era: Era, message: Message, answer: Pick<Answer, 'channel'>): Arrived {
  return newExchange({
    entrance: 'http',
    era,
    server: approach.server,
    credential: approach.credential,
    // Modern traffic has no transport session: the header is ignored, not an error.
    transportId: era === 'modern' ? undefined : approach.transportId,
    headers: approach.headers,
    traceHeaders: approach.traceHeaders,
    message,
    channel: answer.channel,
  });
}

export function finish(gateway: Gateway, server: string, request: IncomingMessage, answer: Answer, reply: Reply): void {
  if (reply.kind === 'accepted') {
    answer.empty(202);
    return;
  }
  const status = reply.status ?? 200;
  const { transportId, scopes } = reply;
  const transport = transportId === undefined ? undefined : { 'mcp-session-id': transportId };
  const asks = status === 401 || scopes !== undefined;
  if (reply.delivery !== undefined) answer.tell([reply.delivery]);
  answer.finish(reply.bytes, status, asks ? challenge(gateway, server, request, scopes) : transport);
}

interface PostRefusal extends EnvelopeFault {
  readonly event: 'type' | 'length' | 'message' | 'envelope' | 'batch';
  readonly status: number;
  /** The id's own text, where it is known. */
  readonly id?: string;
}

/** Answers a request that is no message as the protocol wants it, and writes that down. */
export function refuse(posted: Posted, { event, status, rpc, message, data, id = 'null' }: PostRefusal): void {
  const { gateway, request, response, caller, answer } = posted;
  recordRefusal(gateway, request, { event, status, code: String(rpc), detail: message, ...caller.who });
  if (!request.complete) dropBody(request, response, caller.isStranger);
  answer.finish(errorMessage(id, rpc, message, data), status);
}

function approachOf(server: string, request: IncomingMessage): HttpApproach {
  const transportId = header(request.headers['mcp-session-id']);
  return {
    entrance: 'http',
    server,
    credential: credentialOf(request),
    transportId,
    headers: () => paramHeaders(request),
    traceHeaders: traceHeadersOf(request),
  };
}

function traceHeadersOf({ headers }: IncomingMessage): TraceHeaders | undefined {
  const parent = header(headers['traceparent']);
  return parent === undefined ? undefined : { parent, state: header(headers['tracestate']) };
}

/** A message without a revision of its own belongs to the handshake era, unless its header claims otherwise. */
function eraOf(message: Message, request: IncomingMessage): Era {
  if (claimedVersion(message) !== undefined) return 'modern';
  const version = header(request.headers['mcp-protocol-version']);
  if (message.method === 'initialize' || version === undefined || isHandshakeVersion(version)) return 'handshake';
  return version >= '2026' && message.kind === 'request' ? 'modern' : 'handshake';
}

function isHandshakeVersion(version: string): boolean {
  return handshakeVersions.includes(version) || version === '2024-11-05';
}

function paramHeaders(request: IncomingMessage): Record<string, string> {
  let found: Record<string, string> | undefined;
  for (const name in request.headers) {
    if (!name.startsWith('mcp-param-')) continue;
    found ??= {};
    found[name] = header(request.headers[name]) ?? '';
  }
  return found ?? noHeaders;
}

const noHeaders: Record<string, string> = Object.freeze({});

function header(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

function firstByte(body: Buffer): number {
  let at = 0;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++;
  return at;
}
