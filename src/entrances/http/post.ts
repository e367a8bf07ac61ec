import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Arrived, newExchange } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Era, Reply } from '../../wire/channel.ts';
import { errorMessage } from '../../wire/compose.ts';
import { refuseAmbiguousKeys } from '../../wire/envelope-keys.ts';
import { type Message, MessageFault, readMessage } from '../../wire/message.ts';
import { claimedVersion, envelopeFault } from '../../wire/modern-envelope.ts';
import type { TraceHeaders } from '../../wire/trace.ts';
import { handshakeVersions } from '../../wire/versions.ts';
import { type Answer, createAnswer } from './answer.ts';
import { serveBatch } from './batch.ts';
import { challenge } from './challenge.ts';
import { credentialOf } from './credential.ts';
import { isJson } from './guards.ts';
import { passOver, readBody } from './read-body.ts';

const openBracket = 0x5b;

/** POST /mcp/{server}: one message a body, its answer in the response. */
export async function servePost(
  gateway: Gateway,
  server: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const answer = createAnswer(request, response, gateway.metrics.httpRefused);
  if (!isJson(request)) {
    request.resume();
    fault(answer, 415, 'null', -32600, 'The Content-Type must be application/json');
    return;
  }
  const body = await readBody(request, gateway.config.limits.bodyBytes, (listener) => answer.channel.onGone(listener));
  if (body === 'broken off') return;
  if (body === 'too long') {
    passOver(request);
    fault(answer, 413, 'null', -32600, 'The body is longer than limits.bodyBytes allows');
    return;
  }
  const approach = approachOf(server, request);
  if (body[firstByte(body)] === openBracket) {
    await serveBatch(gateway, approach, request, body, answer);
    return;
  }
  let message: Message;
  try {
    message = readMessage(body);
    refuseAmbiguousKeys(message);
  } catch (error) {
    if (!(error instanceof MessageFault)) throw error;
    fault(answer, 400, error.id, error.notJson ? -32700 : -32600, error.message);
    return;
  }
  const era = eraOf(message, request);
  if (era === 'modern') {
    const { headers } = request;
    const wrong = envelopeFault(message, {
      version: header(headers['mcp-protocol-version']),
      method: header(headers['mcp-method']),
      name: header(headers['mcp-name']),
    });
    if (wrong !== undefined) {
      const bytes = errorMessage(message.id ?? 'null', wrong.rpc, wrong.message, wrong.data);
      answer.finish(bytes, 400);
      return;
    }
  } else {
    const version = header(request.headers['mcp-protocol-version']);
    if (version !== undefined && message.method !== 'initialize' && !isHandshakeVersion(version)) {
      fault(answer, 400, message.id ?? 'null', -32000, 'Bad Request: Unsupported protocol version');
      return;
    }
  }
  const reply = await gateway.serve(arrived(approach, era, message, answer));
  finish(gateway, server, request, answer, reply);
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

export function fault(
  answer: Answer,
  status: number,
  id: string,
  rpc: number,
  message: string,
  headers?: Readonly<Record<string, string>>,
): void {
  answer.finish(errorMessage(id, rpc, message), status, headers);
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
