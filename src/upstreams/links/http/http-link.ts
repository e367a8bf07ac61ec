import type { IncomingMessage } from 'node:http';
import type { Config } from '../../../config/schema/schema.ts';
import { AmbitError } from '../../../errors.ts';
import type { Channel, Era, FinalReply } from '../../../protocol/channel.ts';
import { composeError, composeNotification } from '../../../protocol/compose-message.ts';
import { replaceValue } from '../../../protocol/json/edit.ts';
import { findMember } from '../../../protocol/json/scan.ts';
import { findIdMember, type Message, readMessage } from '../../../protocol/message.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import { sessionScopeKey } from '../../../sessions/narrowed-sessions.ts';
import type { Session } from '../../../sessions/session.ts';
import type { Caller } from '../caller.ts';
import type { BaseLink, OnServerMessage, ServerMessage, UpstreamCall } from '../link.ts';
import {
  createPendingCall,
  createPendingCalls,
  failCall,
  type PendingCall,
  type PendingCalls,
  settleCall,
} from '../relay/pending-calls.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { httpStatusFor, toClientResponse } from '../relay/towards-client.ts';
import {
  type Binding,
  type OutgoingRequest,
  readTargetName,
  toUpstreamNotification,
  toUpstreamRequest,
} from '../relay/towards-upstream.ts';
import { markHarmless, silenceError } from '../upstream-errors.ts';
import { notMcpError } from './http-errors.ts';
import { brokenOffError, readAnswer } from './read-answer.ts';
import { holdStream, isHeld, releaseStream } from './read-sse.ts';
import { createStreamPosition, resumeStream, type StreamPosition } from './resume-stream.ts';
import { addToken, discardResponse, type PendingResponse, type Remote, sendRequest } from './send-request.ts';
import type { SseConnection, StreamReceiver } from './sse-connection.ts';

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

interface HttpLinkOptions {
  readonly server: Remote;
  readonly session: Session;
  readonly dialect: HttpDialect;
  readonly binding: Binding;
  readonly onServerMessage: OnServerMessage;
  readonly limits: Pick<Config['limits'], 'messageBytes' | 'notificationsPerSecond' | 'pendingPerUpstream'>;
}

/** The parts of one link that its functions share. */
interface LinkParts extends HttpLinkOptions {
  readonly pending: PendingCalls;
  /** The open exchange of each call: a request, or the wait before a stream is resumed. */
  readonly sendings: Map<number, Pick<PendingResponse, 'abort'>>;
  /** The calls whose answer comes over the stream of an HTTP+SSE server. */
  readonly streamed: Map<number, UpstreamCall>;
  /** The last notification of the client's handshake, until an HTTP+SSE server has accepted it. */
  initializing: Promise<unknown> | undefined;
  /** Passes a request or notification of the server on. */
  forward(message: Message, call: PendingCall | undefined, response: IncomingMessage): void;
}

const closeDelayMs = 1000;

/** The link of one session to an upstream over HTTP: each request is an exchange of its own. */
export function createHttpLink(options: HttpLinkOptions): BaseLink {
  const { server, dialect, binding, limits } = options;
  const pending = createPendingCalls();
  const sendings: LinkParts['sendings'] = new Map();
  const rate = createRateLimit(limits.notificationsPerSecond);
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;
  const streamed: LinkParts['streamed'] = new Map();
  const parts: LinkParts = { ...options, pending, sendings, streamed, initializing: undefined, forward };

  function forward(message: Message, call: PendingCall | undefined, response: IncomingMessage): void {
    if (!rate.admit()) return;
    if (message.kind === 'request' && dialect.era === 'modern') return;
    const sent: ServerMessage = {
      upstream: server,
      link,
      message,
      pending,
      callers: [...callers],
      binding,
      call,
      respond: (bytes) => void postMessage(parts, bytes, message),
    };
    // A message that cannot be passed on is lost; its failure must not end the gateway.
    options.onServerMessage(sent).then(
      ({ full }) => pauseFor(full, response),
      () => {},
    );
  }

  dialect.attach?.({
    onMessage(message, response) {
      if (message.kind !== 'response') return forward(message, undefined, response);
      const upstreamId = Number(message.id);
      const call = message.id === String(upstreamId) ? streamed.get(upstreamId) : undefined;
      if (call === undefined) return;
      streamed.delete(upstreamId);
      if (settleAnswer(parts, call, upstreamId, message, 200)) server.onAnswered();
    },
    onLost(error) {
      const lost = [...streamed.keys()].flatMap((upstreamId) => pending.take(upstreamId) ?? []);
      streamed.clear();
      if (lost.length > 0) server.onFailed(error);
      for (const call of lost) failCall(call, error);
    },
  });

  function abortSending({ upstreamId }: PendingCall): void {
    streamed.delete(upstreamId);
    sendings.get(upstreamId)?.abort();
    sendings.delete(upstreamId);
  }

  /** Takes a call that is given up and tells the upstream. In the modern era the closed request tells it. */
  function cancelUpstream(call: PendingCall, reason: string): void {
    const { upstreamId } = call;
    pending.take(upstreamId);
    if (dialect.era === 'handshake' && call.isSent) {
      const bytes = composeNotification('notifications/cancelled', { requestId: upstreamId, reason });
      void postMessage(parts, bytes, readMessage(bytes));
    }
    abortSending(call);
  }

  function cancelAbandoned(upstreamId: number): void {
    const call = pending.get(upstreamId);
    if (call === undefined) return;
    cancelUpstream(call, 'the caller has disconnected');
    call.settle({ kind: 'accepted' });
  }

  const link: BaseLink = {
    sessionId: options.session.id,
    scopeKey: sessionScopeKey(options.session),
    server: server.name,
    era: dialect.era,
    isBusy: () => pending.findYoungest((call) => call.method !== 'subscriptions/listen') !== undefined,
    isClosed: () => closing !== undefined,
    pending,
    ready: () => dialect.prepare(),

    async request(call) {
      if (closing !== undefined) throw closing;
      if (pending.size() >= limits.pendingPerUpstream) throw new AmbitError('OVERLOADED');
      const { message } = call;
      const upstreamId = pending.nextId();
      return new Promise<FinalReply>((settle, fail) => {
        const name = readTargetName(message);
        const waiting = createPendingCall(call, message, name, upstreamId, binding, server.timeoutMs, settle, fail);
        pending.add(waiting);
        if (call.cancelOnGone) call.channel.onGone(() => cancelAbandoned(upstreamId));
        sendAndRead(parts, call, waiting)
          .catch((error: Error) => {
            // A call that was given up says nothing about the server.
            const failed = pending.take(upstreamId);
            if (failed === undefined) return;
            server.onFailed(error);
            failCall(failed, error);
          })
          .finally(() => sendings.delete(upstreamId));
      });
    },

    notify(call) {
      try {
        const sent = postMessage(parts, toUpstreamNotification(call.message, call.edits, binding), call.message);
        if (dialect.connection !== undefined && call.message.method === 'notifications/initialized') {
          parts.initializing = sent;
        }
      } catch {
        // The notification is about a task of another session: it goes nowhere.
      }
    },

    answer(upstreamId, message, pipelineEdits) {
      const edits = [...pipelineEdits, replaceValue(findIdMember(message), upstreamId)];
      void postMessage(parts, toUpstreamNotification(message, edits, binding), message);
    },

    cancel(from, requestId, message) {
      const call = pending.find(from, requestId);
      if (call === undefined) return;
      const named = findMember(message.params?.shape, 'requestId');
      pending.take(call.upstreamId);
      if (named !== undefined && dialect.era === 'handshake') {
        const edits = [...stripReservedMeta(message, binding.keys?.()), replaceValue(named, String(call.upstreamId))];
        void postMessage(parts, toUpstreamNotification(message, edits, binding), message);
      }
      abortSending(call);
      call.settle({ kind: 'accepted' });
    },

    callerCount: () => callers.size,
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      if (callers.size === 0) void link.close(new AmbitError('SESSION_ENDED'));
    },
    listen({ stream }) {
      if (stream !== undefined) link.openStream(stream);
    },
    openStream(stream) {
      dialect.openEventStream(stream, (message, response) => {
        if (message.kind !== 'response') forward(message, undefined, response);
      });
    },

    dropSession() {},
    sweep(now) {
      for (const call of pending.findOverdue(now)) {
        cancelUpstream(call, 'timed out');
        failCall(call, silenceError(server.name, call.timeoutMs));
      }
    },

    async close(reason) {
      if (closing !== undefined) return;
      closing = reason;
      for (const call of pending.drain()) {
        abortSending(call);
        failCall(call, reason);
      }
      dialect.close();
      // The delay lets the last requests reach the upstream.
      setTimeout(() => server.agent.destroy(), closeDelayMs).unref();
    },
  };
  return link;
}

async function sendAndRead(parts: LinkParts, call: UpstreamCall, waiting: PendingCall): Promise<void> {
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
  streamed.set(upstreamId, call);
  const sending = connection.post(headers, bytes, undefined, beforeSend);
  sendings.set(upstreamId, sending);
  const response = await sending.response;
  discardResponse(response);
  const { statusCode: status = 0 } = response;
  if (status >= 200 && status < 300) return true;
  if (!streamed.delete(upstreamId)) return true;
  if (status !== 404) throw notMcpError(server.name, response);
  connection.close();
  return false;
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
  const position = createStreamPosition();
  const isWanted = () => pending.get(upstreamId) !== undefined;
  const setAbort = (abort: () => void) => void parts.sendings.set(upstreamId, { abort });
  const open = (eventId: string | undefined) => sendRequest(server, 'GET', dialect.streamHeaders(eventId));
  for (let stream: IncomingMessage | undefined = response; stream !== undefined; ) {
    await readMessages(parts, call, stream, waiting, position);
    if (!isWanted()) return;
    stream = canResume(dialect, position) ? await resumeStream(position, open, isWanted, setAbort) : undefined;
  }
  if (isWanted()) throw brokenOffError(server.name);
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
): Promise<void> {
  const { server, dialect, limits, pending } = parts;
  const status = response.statusCode ?? 0;
  return readAnswer(response, {
    server: server.name,
    maxBytes: limits.messageBytes,
    onEventId: position.onEventId,
    onRetry: position.onRetry,
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
function postMessage({ server, dialect }: LinkParts, bytes: Buffer, message: Message): Promise<void> {
  const headers = dialect.headers(message, { name: '', taskId: undefined }, {});
  const { connection } = dialect;
  const sending =
    connection === undefined
      ? sendRequest(server, 'POST', headers, bytes, server.timeoutMs)
      : connection.post(headers, bytes, server.timeoutMs);
  return sending.response.then(discardResponse, () => {});
}

/** Pauses the response of the upstream until a full channel has room again. */
function pauseFor(full: Channel | undefined, response: IncomingMessage): void {
  if (full === undefined || full.isGone() || isHeld(response, 'full')) return;
  holdStream(response, 'full');
  const resume = () => releaseStream(response, 'full');
  full.onDrain(resume);
  full.onGone(resume);
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
