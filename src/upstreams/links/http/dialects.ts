import type { IncomingMessage } from 'node:http';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import { type Message, MessageError, readMessage } from '../../../protocol/message.ts';
import { type EraVerdicts, setVerdict } from '../era-verdicts.ts';
import { discoverParams, refusedHandshakeError, repeatableParams, unsupportedModernError } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import { readAnswer } from './read-answer.ts';
import type { HttpDialect } from './send-call.ts';
import {
  addToken,
  createEventStream,
  discardResponse,
  type EventStream,
  handshakeHeaders,
  modernHeaders,
  type PendingResponse,
  type Remote,
  sendRequest,
} from './send-request.ts';
import { createSseTransport, postToServer, type SseMemory, type StreamReceiver } from './sse-connection.ts';

const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
const reconnectMs = 1000;
const maxReconnectMs = 60_000;

/** True for the answers of an HTTP+SSE server to a POST at its address, according to the specification. */
function mayBeSse({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 400 && statusCode < 500 && ![401, 403, 407, 408, 425, 429].includes(statusCode);
}

/** Creates the dialect of the handshake era: each client has its own session with the upstream, reopened when lost. */
export function createHandshakeDialect(
  server: Remote,
  maxBytes: number,
  transports: SseMemory,
  ownParams?: string,
): HttpDialect & { readonly handshake: Handshake | undefined } {
  let upstreamSession: string | undefined;
  let version: string | undefined;
  /** The params of the handshake; known from the start where Ambit makes it for a modern client. */
  let initializeParams = ownParams;
  let handshake: Handshake | undefined;
  let repeating: Promise<void> | undefined;
  let closed = false;
  let receiver: StreamReceiver | undefined;
  const streams = new Set<EventStream>();
  const sse = createSseTransport(server, maxBytes, transports, {
    onMessage: (message, response) => receiver?.onMessage(message, response),
    onLost(error) {
      receiver?.onLost(error);
      reconnectLater(0);
    },
  });

  async function askByPost(headers: Record<string, string>, body: Buffer): Promise<Message | undefined> {
    const response = await sendRequest(server, 'POST', headers, body, server.timeoutMs).response;
    try {
      const answer = await readHandshakeAnswer(server, maxBytes, response);
      upstreamSession = readSessionId(response);
      return answer;
    } catch (error) {
      if (mayBeSse(response) && (await sse.detect())) return sse.ask(headers, body);
      throw error;
    }
  }

  /** Repeats the first handshake after the upstream has lost its session. The client does not notice. */
  async function repeatHandshake(): Promise<void> {
    const { params, token } = server.attacher.attachToParams('initialize', initializeParams ?? '{}');
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":"initialize","params":${params}}`);
    const headers = addToken(handshakeHeaders(undefined, undefined), token);
    const answer = (await sse.connectIfUsed()) ? await sse.ask(headers, body) : await askByPost(headers, body);
    if (answer?.result === undefined) {
      sse.connection?.close();
      throw refusedHandshakeError(ownParams === undefined ? undefined : answer, server);
    }
    rememberHandshake(answer);
    const sending = postToServer(server, sse.connection, handshakeHeaders(upstreamSession, version), initialized);
    discardResponse(await sending.response);
    for (const stream of streams) stream.restart();
  }

  /** Opens a lost stream again while a client listens; otherwise the next request does. */
  function reconnectLater(failures: number): void {
    if (closed || streams.size === 0) return;
    const reconnect = () => {
      if (closed || streams.size === 0 || sse.connection?.isOpen()) return;
      ensureSession().catch(() => reconnectLater(failures + 1));
    };
    setTimeout(reconnect, Math.min(reconnectMs * 2 ** failures, maxReconnectMs)).unref();
  }

  function rememberHandshake(answer: Message): void {
    if (answer.result === undefined) return;
    version = readNegotiatedVersion(answer, answer.result);
    handshake = { version: version ?? '', result: readRawValue(answer.bytes, answer.result) };
  }

  function streamHeaders(eventId: string | undefined): Record<string, string> {
    const headers = { ...handshakeHeaders(upstreamSession, version), accept: 'text/event-stream' };
    return eventId === undefined ? headers : { ...headers, 'last-event-id': eventId };
  }

  function ensureSession(): Promise<void> {
    repeating ??= repeatHandshake().finally(() => {
      repeating = undefined;
    });
    return repeating;
  }

  return {
    era: 'handshake',
    get handshake() {
      return handshake;
    },
    get connection() {
      return sse.connection;
    },
    attach(given) {
      receiver = given;
    },
    async prepare(message) {
      if (repeating !== undefined && message?.method !== 'initialize') await repeating;
      if (sse.isUsed) {
        if (sse.connection?.isOpen()) return;
        if (message?.method === 'initialize') await sse.connectIfUsed();
        else await ensureSession();
        return;
      }
      if (ownParams !== undefined && handshake === undefined) await ensureSession();
    },
    headers: (message) =>
      message.method === 'initialize'
        ? handshakeHeaders(undefined, undefined)
        : handshakeHeaders(upstreamSession, version),

    async inspect(message, response, { 'mcp-session-id': sentWith }) {
      if (message.method === 'initialize') {
        upstreamSession = readSessionId(response);
        return false;
      }
      if (response.statusCode !== 404 || sentWith === undefined || initializeParams === undefined) return false;
      // Another call may have reopened the session before this one.
      if (sentWith === upstreamSession) void ensureSession();
      await repeating;
      return true;
    },

    fallBack: async (message, response) => message.method === 'initialize' && mayBeSse(response) && sse.detect(),

    onCompleted(message, answer) {
      if (message.method !== 'initialize' || answer.result === undefined) return;
      rememberHandshake(answer);
      initializeParams = repeatableParams(message);
    },

    streamHeaders,

    openEventStream(channel, receive) {
      if (closed || channel.isGone()) return;
      const open = (eventId: string | undefined) => sendRequest(server, 'GET', streamHeaders(eventId));
      // All messages of an HTTP+SSE server come over the one stream that is open already.
      const stream = sse.isUsed ? { restart() {}, end() {} } : readEventStream(server, maxBytes, open, receive);
      streams.add(stream);
      channel.onGone(() => {
        streams.delete(stream);
        stream.end();
      });
    },

    close() {
      closed = true;
      for (const stream of streams) stream.end();
      sse.close();
      if (upstreamSession === undefined) return;
      const headers = handshakeHeaders(upstreamSession, version);
      sendRequest(server, 'DELETE', headers, undefined, server.timeoutMs).response.then(discardResponse, () => {});
    },
  };
}

function readSessionId({ headers }: IncomingMessage): string | undefined {
  const id = headers['mcp-session-id'];
  return typeof id === 'string' ? id : undefined;
}

/** Reads the version of the handshake. It goes into a header of every request, so anything but a revision of MCP is dropped. */
function readNegotiatedVersion({ bytes }: Message, result: NonNullable<Message['result']>): string | undefined {
  const version = readStringValue(bytes, findMember(result.shape, 'protocolVersion'));
  return version !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(version) ? version : undefined;
}

async function readHandshakeAnswer(
  { name }: Remote,
  maxBytes: number,
  response: IncomingMessage,
): Promise<Message | undefined> {
  let answer: Message | undefined;
  await readAnswer(response, {
    server: name,
    maxBytes,
    onMessage(message) {
      if (message.kind === 'response') answer = message;
      return message.kind === 'response';
    },
  });
  return answer;
}

function readEventStream(
  { name }: Remote,
  maxBytes: number,
  open: (eventId: string | undefined) => PendingResponse,
  receive: (message: Message, response: IncomingMessage) => void,
): EventStream {
  return createEventStream(open, (response, { onEventId, onRetry }) =>
    readAnswer(response, {
      server: name,
      maxBytes,
      onEventId,
      onRetry,
      onMessage(message) {
        receive(message, response);
        return false;
      },
    }),
  );
}

/** Creates the dialect of MCP 2026-07-28. Only the era of the upstream is remembered between requests. */
export function createModernDialect(server: Remote, verdicts: EraVerdicts, maxBytes: number): HttpDialect {
  let probing: Promise<void> | undefined;
  return {
    era: 'modern',
    async prepare() {
      if (verdicts.getCertain(server.name) === 'modern') return;
      if (verdicts.get(server.name) !== 'handshake') {
        probing ??= probeEra(server, verdicts, maxBytes).finally(() => {
          probing = undefined;
        });
        await probing;
      }
      if (verdicts.get(server.name) === 'handshake') throw unsupportedModernError();
    },
    headers: modernHeaders,
    inspect: async () => false,
    onCompleted() {},
    streamHeaders: () => ({}),
    openEventStream() {},
    close() {},
  };
}

/** Asks which era the upstream speaks. A refused connection says nothing about it and fails the call. */
async function probeEra(server: Remote, verdicts: EraVerdicts, maxBytes: number): Promise<void> {
  const { params, token } = server.attacher.attachToParams('server/discover', discoverParams);
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":${params}}`);
  const question = readMessage(body);
  const headers = addToken(modernHeaders(question, { name: '', taskId: undefined }, {}), token);
  const response = await sendRequest(server, 'POST', headers, body, server.timeoutMs).response;
  const status = response.statusCode ?? 0;
  let answer: Message | undefined;
  try {
    await readAnswer(response, {
      server: server.name,
      maxBytes,
      onMessage(message) {
        answer = message;
        return message.kind === 'response';
      },
    });
  } catch (error) {
    if (error instanceof MessageError || !response.complete) throw error;
  }
  setVerdict(verdicts, server.name, answer, isDoubtful(status, answer) ? 'answer' : undefined);
}

/** True for an answer that says little about the server: a login page, or one of an overloaded proxy. */
function isDoubtful(status: number, answer: Message | undefined): boolean {
  if (status >= 500 || [401, 403, 407, 408, 425, 429].includes(status)) return true;
  return answer === undefined && (status < 400 || status === 404 || status === 410);
}
