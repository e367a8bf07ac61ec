import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Config } from '../../../config/schema/schema.ts';
import { AmbitError } from '../../../errors.ts';
import type { Channel, Era } from '../../../protocol/channel.ts';
import { composeError } from '../../../protocol/compose-message.ts';
import { findMember } from '../../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../../protocol/message.ts';
import type { Session } from '../../../sessions/session.ts';
import type { OnServerMessage, UpstreamCall } from '../link.ts';
import { failCall, type PendingCall, type PendingCalls, settleCall } from '../relay/pending-calls.ts';
import { httpStatusFor, toClientResponse } from '../relay/towards-client.ts';
import {
  type Binding,
  type OutgoingRequest,
  toUpstreamNotification,
  toUpstreamRequest,
} from '../relay/towards-upstream.ts';
import { markHarmless, notMcpError } from '../upstream-errors.ts';
import { brokenOffError, isEventStream, readAnswer } from './read-answer.ts';
import {
  addToken,
  createStreamPosition,
  discardResponse,
  type PendingResponse,
  type Remote,
  resumeStream,
  type StreamPosition,
  sendRequest,
} from './send-request.ts';
import { postToServer, type SseConnection, type StreamReceiver } from './sse-connection.ts';

/** The length of a refusal in plain text. */
const maxRefusalBytes = 1024;

/** The differences between the eras: the headers of a request, and the upstream's own session. */
export interface HttpDialect {
  readonly era: Era;
  /** Runs before each request; throws when the upstream does not speak this era. */
  prepare(message?: Message): Promise<void>;
  /** The connection to an HTTP+SSE server, which may be closed by now; undefined for all other servers. */
  readonly connection?: SseConnection | undefined;
  /** Called once, before anything else: takes the messages of an HTTP+SSE server. */
  attach?(receiver: StreamReceiver): void;
  /** Called for an answer that is no MCP. True when the upstream speaks HTTP+SSE: the request is sent once more. */
  fallBack?(message: Message, response: IncomingMessage): Promise<boolean>;
  headers(
    message: Message,
    outgoing: Pick<OutgoingRequest, 'name' | 'taskId'>,
    params: Readonly<Record<string, string>>,
  ): Record<string, string>;
  /** Inspects the head of the first answer; true asks for the request to be sent once more. */
  inspect(message: Message, response: IncomingMessage, headers: Readonly<Record<string, string>>): Promise<boolean>;
  /** Runs after the final message of a request. */
  onCompleted(message: Message, answer: Message): void;
  /** The headers that open a stream, after this event if there is one. Handshake era only. */
  streamHeaders(eventId: string | undefined): Record<string, string>;
  /** Opens the upstream's stream for messages that no request waits for. */
  openEventStream(stream: Channel, receive: (message: Message, response: IncomingMessage) => void): void;
  close(): void;
}

export interface HttpLinkOptions {
  readonly server: Remote;
  readonly session: Session;
  readonly dialect: HttpDialect;
  readonly binding: Binding;
  readonly onServerMessage: OnServerMessage;
  readonly limits: Pick<Config['limits'], 'messageBytes' | 'notificationsPerSecond' | 'pendingPerUpstream'>;
}

/** The time that an HTTP+SSE server has to confirm a message after it has answered it. */
const confirmMs = 1000;

/** A call to an HTTP+SSE server. */
interface StreamedCall {
  readonly call: UpstreamCall;
  /** True when the server has confirmed the message, so the call may have an effect. */
  isAccepted: boolean;
}

/** The parts of one link that its functions share. */
export interface LinkParts extends HttpLinkOptions {
  readonly pending: PendingCalls;
  /** The open exchange of each call: a request, or the wait before a stream is resumed. */
  readonly sendings: Map<number, Pick<PendingResponse, 'abort'>>;
  /** The calls whose answer comes over the stream of an HTTP+SSE server. */
  readonly streamed: Map<number, StreamedCall>;
  /** The last notification of the client's handshake, until an HTTP+SSE server has accepted it. */
  initializing: Promise<unknown> | undefined;
  /** Passes a request or notification of the server on. */
  forward(message: Message, call: PendingCall | undefined, response: IncomingMessage): void;
}

/** Sends a call and settles it with the answer. */
export async function sendCall(parts: LinkParts, call: UpstreamCall, waiting: PendingCall): Promise<void> {
  const { server, dialect, binding, pending } = parts;
  await dialect.prepare(call.message);
  // The headers for the user may have to be waited for, so the call is checked again before it is sent.
  const beforeSend = () => {
    call.acting?.recheck?.();
    waiting.isSent = true;
  };
  for (let attempt = 0; ; attempt++) {
    // A call that was cancelled, timed out or ended meanwhile must not reach the upstream.
    if (pending.get(waiting.upstreamId) === undefined) return;
    const outgoing = toUpstreamRequest(call.message, call.edits, waiting.upstreamId, binding, call.acting);
    waiting.hasUnknownTask = outgoing.hasUnknownTask;
    const own = addToken(dialect.headers(call.message, outgoing, call.headers()), outgoing.token);
    const headers = { ...own, ...call.acting?.trace?.headers };
    if (dialect.connection !== undefined) {
      if (await sendOverStream(parts, call, waiting, headers, outgoing.bytes, beforeSend)) return;
      if (attempt > 0) throw sessionLostError(server.name);
      await dialect.prepare(call.message);
      continue;
    }
    const sending = sendRequest(server, 'POST', headers, outgoing.bytes, undefined, beforeSend);
    parts.sendings.set(waiting.upstreamId, sending);
    const response = await sending.response;
    if (attempt === 0 && (await dialect.inspect(call.message, response, headers))) {
      discardResponse(response);
      continue;
    }
    if (response.statusCode === 404 && 'mcp-session-id' in headers) {
      discardResponse(response);
      throw sessionLostError(server.name);
    }
    try {
      await readReply(parts, call, response, waiting);
    } catch (error) {
      if (await dialect.fallBack?.(call.message, response)) continue;
      throw error;
    }
    server.onAnswered();
    return;
  }
}

/** Sends a call to an HTTP+SSE server. False when the server does not know the connection and did not take the call. */
async function sendOverStream(
  { server, dialect, pending, sendings, streamed, initializing }: LinkParts,
  call: UpstreamCall,
  waiting: PendingCall,
  headers: Record<string, string>,
  bytes: Buffer,
  beforeSend: () => void,
): Promise<boolean> {
  const { upstreamId } = waiting;
  // Servers refuse requests that overtake the end of the handshake.
  if (initializing !== undefined) await initializing;
  const { connection } = dialect;
  if (connection === undefined || pending.get(upstreamId) === undefined) return true;
  const entry: StreamedCall = { call, isAccepted: false };
  streamed.set(upstreamId, entry);
  const sending = connection.post(headers, bytes, undefined, beforeSend);
  sendings.set(upstreamId, sending);
  const response = await sending.response;
  discardResponse(response);
  const { statusCode: status = 0 } = response;
  if (status >= 200 && status < 300) {
    entry.isAccepted = true;
    // The stream was lost while the server took the message: the answer cannot come any more.
    if (!connection.isOpen() && streamed.has(upstreamId)) throw brokenOffError(server.name);
    return true;
  }
  if (!streamed.delete(upstreamId)) return true;
  if (status !== 404) throw notMcpError(server.name, response);
  connection.close();
  return false;
}

/** Takes the messages of an HTTP+SSE server: answers end their calls, everything else is passed on. */
export function createStreamReceiver(parts: LinkParts): StreamReceiver {
  const { server, pending, sendings, streamed } = parts;
  return {
    onMessage(message, response) {
      if (message.kind !== 'response') return parts.forward(message, undefined, response);
      const upstreamId = Number(message.id);
      const entry = message.id === String(upstreamId) ? streamed.get(upstreamId) : undefined;
      if (entry === undefined) return;
      streamed.delete(upstreamId);
      endLater(sendings.get(upstreamId));
      if (settleAnswer(parts, entry.call, upstreamId, message, 200)) server.onAnswered();
    },
    onLost(error) {
      // The other calls wait for the response to their POST, which says whether the server took them.
      const accepted = [...streamed].filter(([, { isAccepted }]) => isAccepted);
      for (const [upstreamId] of accepted) {
        streamed.delete(upstreamId);
        const call = pending.take(upstreamId);
        if (call !== undefined) failCall(call, error);
      }
      if (accepted.length > 0) server.onFailed(error);
    },
  };
}

/** Ends a POST that its server leaves open after the answer. Most servers confirm it at once. */
function endLater(sending: Pick<PendingResponse, 'abort'> | undefined): void {
  if (sending !== undefined) setTimeout(sending.abort, confirmMs).unref();
}

/** Reads the answer to a call. A stream that ends before it is resumed where the upstream allows that. */
async function readReply(
  parts: LinkParts,
  call: UpstreamCall,
  response: IncomingMessage,
  waiting: PendingCall,
): Promise<void> {
  const { server, dialect, pending } = parts;
  const { upstreamId } = waiting;
  const status = response.statusCode ?? 0;
  // A login that the upstream wants is between Ambit and the upstream: the client must not take it for Ambit's own.
  if (status === 401 || status === 403 || status === 407) {
    discardResponse(response);
    throw notMcpError(server.name, response);
  }
  if (status === 400 && (await isUnknownMethod(response))) {
    const refusal = composeError(String(upstreamId), -32601, 'Method not found');
    settleAnswer(parts, call, upstreamId, readMessage(refusal), 404);
    return;
  }
  call.channel.followForm?.(isEventStream(response));
  const position = createStreamPosition();
  const isWanted = () => pending.get(upstreamId) !== undefined;
  const setAbort = (abort: () => void) => void parts.sendings.set(upstreamId, { abort });
  const open = (eventId: string | undefined) => sendRequest(server, 'GET', dialect.streamHeaders(eventId));
  for (let stream: IncomingMessage | undefined = response; stream !== undefined; ) {
    // The first event of the first connection is Ambit's own.
    const onEmpty = stream === response ? undefined : () => call.channel.prime?.();
    await readMessages(parts, call, stream, waiting, position, onEmpty);
    if (!isWanted()) return;
    if (!canResume(dialect, position)) {
      // The Go SDK without an event store: its clients come back, but the answer is lost. They get the error then.
      if (dialect.era === 'handshake' && position.asksToReturn && stream.complete)
        call.channel.suspend?.(position.retryMs, () => {});
      break;
    }
    // Ambit hides a connection that broke. One that the upstream closed on purpose is closed for the client too.
    const channel = stream.complete ? call.channel : undefined;
    stream = await resumeStream(position, open, isWanted, setAbort, channel, stream === response);
  }
  if (isWanted()) throw brokenOffError(server.name);
}

/** Tells whether a server refuses a method that it does not have in plain text, as the Go SDK does. Reads the answer then. */
async function isUnknownMethod(response: IncomingMessage): Promise<boolean> {
  const { 'content-type': type = '', 'content-length': length } = response.headers;
  if (!type.startsWith('text/plain') || !(Number(length) <= maxRefusalBytes)) return false;
  const refusal = await text(response).catch(() => '');
  return /^JSON RPC not handled: ".*" unsupported\s*$/.test(refusal);
}

function canResume({ era }: HttpDialect, { eventId }: StreamPosition): boolean {
  return eventId !== undefined && era === 'handshake';
}

/** Reads the messages of one response, until the final one or the end. */
function readMessages(
  parts: LinkParts,
  call: UpstreamCall,
  response: IncomingMessage,
  waiting: PendingCall,
  position: StreamPosition,
  onEmpty: (() => void) | undefined,
): Promise<void> {
  const { server, dialect, limits, pending } = parts;
  const status = response.statusCode ?? 0;
  return readAnswer(response, {
    server: server.name,
    maxBytes: limits.messageBytes,
    onEventId: position.onEventId,
    onRetry: position.onRetry,
    onEmpty,
    canResume: () => canResume(dialect, position),
    onMessage(message) {
      if (message.kind !== 'response') {
        parts.forward(message, pending.get(waiting.upstreamId) ?? waiting, response);
        return false;
      }
      const isOurs = message.id === String(waiting.upstreamId) || (message.id === 'null' && status >= 400);
      return isOurs && settleAnswer(parts, call, waiting.upstreamId, message, status);
    },
  });
}

/** Settles a call with its answer; false when the call was given up. */
function settleAnswer(
  { server, dialect, binding, pending }: LinkParts,
  call: UpstreamCall,
  upstreamId: number,
  message: Message,
  status: number,
): boolean {
  // A bridge may have replaced the pending call.
  const asker = pending.take(upstreamId);
  if (asker === undefined) return false;
  dialect.onCompleted(call.message, message);
  settleCall(server, asker, message, () => ({
    kind: 'message',
    bytes:
      findMember(message.shape, 'id') === undefined
        ? composeError(asker.clientId, -32603, 'The server answered without an id')
        : toClientResponse(message, asker, binding),
    status: clientStatus(status, message, dialect.era),
  }));
  return true;
}

/** Posts a message that nobody waits for; the answer of the upstream is discarded. */
export function postMessage({ server, dialect }: LinkParts, bytes: Buffer, message: Message): Promise<void> {
  const headers = dialect.headers(message, { name: '', taskId: undefined }, {});
  const sending = postToServer(server, dialect.connection, headers, bytes);
  return sending.response.then(discardResponse, () => {});
}

/** Posts a notification of the client. */
export function postNotification(parts: LinkParts, { message, edits }: Pick<UpstreamCall, 'message' | 'edits'>): void {
  try {
    const sent = postMessage(parts, toUpstreamNotification(message, edits, parts.binding), message);
    const isLast = message.method === 'notifications/initialized';
    if (isLast && parts.dialect.connection !== undefined) parts.initializing = sent;
  } catch {
    // The notification is about a task of another session: it goes nowhere.
  }
}

/** Avoids a 404 that a handshake-era client would read as the end of its session; in the modern era it means a missing method. */
function clientStatus(status: number, answer: Message, era: Era): number {
  if (status === 404) return era === 'modern' ? httpStatusFor(answer) : 200;
  return status >= 400 && status < 500 ? status : 200;
}

/** The lost session is between Ambit and the upstream: the client has another one, with Ambit. */
function sessionLostError(server: string): AmbitError {
  const error = new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" does not know the session that it has just created.`,
    hint: 'Try again later. The session with Ambit stays open.',
  });
  return markHarmless(error, 'refused');
}
