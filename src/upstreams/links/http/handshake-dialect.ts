import type { IncomingMessage } from 'node:http';
import { withTimeout } from '../../../lib/async/timeout.ts';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';
import type { EraVerdicts } from '../era-verdicts.ts';
import { refusedHandshakeError, repeatableParams } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import { notMcpError } from './http-errors.ts';
import type { HttpDialect } from './http-link.ts';
import { readAnswer } from './read-answer.ts';
import { createEventStream, type EventStream } from './resume-stream.ts';
import { addToken, discardResponse, handshakeHeaders, type Remote, sendRequest } from './send-request.ts';
import { findSseFault, openSseConnection, type SseConnection, type StreamReceiver } from './sse-connection.ts';

const reconnectMs = 1000;
const maxReconnectMs = 60_000;

/** Remembers which servers speak HTTP+SSE. */
type TransportMemory = Pick<EraVerdicts, 'usesSse' | 'setSse'>;

/** True for the answers of an HTTP+SSE server to a POST at its address, according to the specification. */
function mayBeSse({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 400 && statusCode < 500 && ![401, 403, 407, 408, 425, 429].includes(statusCode);
}

/** Creates the dialect of the handshake era: each client has its own session with the upstream, reopened when lost. */
export function createHandshakeDialect(
  server: Remote,
  maxBytes: number,
  transports: TransportMemory,
  ownParams?: string,
): HttpDialect & { readonly handshake: Handshake | undefined } {
  let upstreamSession: string | undefined;
  let version: string | undefined;
  /** The params of the handshake; known from the start where Ambit makes it for a modern client. */
  let initializeParams = ownParams;
  let handshake: Handshake | undefined;
  let repeating: Promise<void> | undefined;
  let closed = false;
  let usesSse = server.transport === 'sse' || transports.usesSse(server.name);
  let connection: SseConnection | undefined;
  let connecting: Promise<SseConnection> | undefined;
  let receiver: StreamReceiver | undefined;
  /** Waits for the answer to Ambit's own handshake over the stream. */
  let ownAnswer: { resolve(answer: Message): void; reject(error: Error): void } | undefined;
  const streams = new Set<EventStream>();

  function readSessionId(response: IncomingMessage): string | undefined {
    const id = response.headers['mcp-session-id'];
    return typeof id === 'string' ? id : undefined;
  }

  /** Repeats the first handshake after the upstream has lost its session. The client does not notice. */
  async function repeatHandshake(): Promise<void> {
    const { params, token } = server.attacher.attachToParams('initialize', initializeParams ?? '{}');
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":"initialize","params":${params}}`);
    const headers = addToken(handshakeHeaders(undefined, undefined), token);
    const isOverStream = usesSse && (await connectIfSse());
    const answer = isOverStream ? await askOverStream(headers, body) : await askByPost(headers, body);
    if (answer?.result === undefined) throw refusedHandshakeError(ownParams === undefined ? undefined : answer, server);
    rememberHandshake(answer);
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    const afterwards = handshakeHeaders(upstreamSession, version);
    const sending = usesSse
      ? connection?.post(afterwards, initialized, server.timeoutMs)
      : sendRequest(server, 'POST', afterwards, initialized, server.timeoutMs);
    if (sending !== undefined) discardResponse(await sending.response);
    for (const stream of streams) stream.restart();
  }

  async function askByPost(headers: Record<string, string>, body: Buffer): Promise<Message | undefined> {
    const response = await sendRequest(server, 'POST', headers, body, server.timeoutMs).response;
    let answer: Message | undefined;
    try {
      await readAnswer(response, {
        server: server.name,
        maxBytes,
        onMessage(message) {
          if (message.kind === 'response') answer = message;
          return message.kind === 'response';
        },
      });
    } catch (error) {
      if (mayBeSse(response) && (await detectSse())) return askOverStream(headers, body);
      throw error;
    }
    upstreamSession = readSessionId(response);
    return answer;
  }

  async function askOverStream(headers: Record<string, string>, body: Buffer): Promise<Message> {
    const opened = await connect();
    const answer = new Promise<Message>((resolve, reject) => {
      ownAnswer = { resolve, reject };
    });
    answer.catch(() => {});
    const response = await opened.post(headers, body, server.timeoutMs).response;
    discardResponse(response);
    if ((response.statusCode ?? 0) >= 300) throw notMcpError(server.name, response);
    return withTimeout(answer, server.timeoutMs, `The server "${server.name}" did not answer the handshake.`);
  }

  /** Opens the stream of an HTTP+SSE server, once however many calls wait for it. */
  async function connect(): Promise<SseConnection> {
    if (connection?.isOpen()) return connection;
    connecting ??= openSseConnection(server, maxBytes, { onMessage: receive, onLost: lose }).finally(() => {
      connecting = undefined;
    });
    connection = await connecting;
    if (closed) connection.close();
    return connection;
  }

  /** False when a server that spoke HTTP+SSE before no longer does. */
  async function connectIfSse(): Promise<boolean> {
    try {
      await connect();
      return true;
    } catch (error) {
      if (server.transport === 'sse' || findSseFault(error) !== 'absent') throw error;
      usesSse = false;
      transports.setSse(server.name, false);
      return false;
    }
  }

  async function detectSse(): Promise<boolean> {
    try {
      await connect();
    } catch (error) {
      if (findSseFault(error) === 'endpoint') throw error;
      return false;
    }
    usesSse = true;
    transports.setSse(server.name, true);
    return true;
  }

  function receive(message: Message, response: IncomingMessage): void {
    if (message.kind === 'response' && message.id === '"ambit"') ownAnswer?.resolve(message);
    else receiver?.onMessage(message, response);
  }

  function lose(error: Error): void {
    ownAnswer?.reject(error);
    receiver?.onLost(error);
    reconnectLater(0);
  }

  /** Opens a lost stream again while a client listens; otherwise the next request does. */
  function reconnectLater(failures: number): void {
    if (closed || streams.size === 0) return;
    const waitMs = Math.min(reconnectMs * 2 ** failures, maxReconnectMs);
    setTimeout(() => {
      if (closed || streams.size === 0 || connection?.isOpen()) return;
      ensureSession().catch(() => reconnectLater(failures + 1));
    }, waitMs).unref();
  }

  function rememberHandshake(answer: Message): void {
    if (answer.result === undefined) return;
    const negotiated = readStringValue(answer.bytes, findMember(answer.result.shape, 'protocolVersion'));
    // The version goes into a header of every request, so anything but a revision of MCP is dropped.
    version = negotiated !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(negotiated) ? negotiated : undefined;
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
      return usesSse ? connection : undefined;
    },
    attach(given) {
      receiver = given;
    },
    async prepare(message) {
      if (repeating !== undefined && message?.method !== 'initialize') await repeating;
      if (usesSse) {
        if (connection?.isOpen()) return;
        if (message?.method === 'initialize') await connectIfSse();
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

    fallBack: async (message, response) => message.method === 'initialize' && mayBeSse(response) && detectSse(),

    onCompleted(message, answer) {
      if (message.method !== 'initialize' || answer.result === undefined) return;
      rememberHandshake(answer);
      initializeParams = repeatableParams(message);
    },

    streamHeaders,

    openEventStream(channel, receive) {
      if (closed || channel.isGone()) return;
      if (usesSse) {
        // All messages come over the one stream that is open already.
        const listener: EventStream = { restart() {}, end() {} };
        streams.add(listener);
        channel.onGone(() => streams.delete(listener));
        return;
      }
      const stream = createEventStream(
        (eventId) => sendRequest(server, 'GET', streamHeaders(eventId)),
        (response, { onEventId, onRetry }) =>
          readAnswer(response, {
            server: server.name,
            maxBytes,
            onEventId,
            onRetry,
            onMessage(message) {
              receive(message, response);
              return false;
            },
          }),
      );
      streams.add(stream);
      channel.onGone(() => {
        streams.delete(stream);
        stream.end();
      });
    },

    close() {
      closed = true;
      for (const stream of streams) stream.end();
      connection?.close();
      if (upstreamSession === undefined) return;
      const headers = handshakeHeaders(upstreamSession, version);
      sendRequest(server, 'DELETE', headers, undefined, server.timeoutMs).response.then(discardResponse, () => {});
    },
  };
}
