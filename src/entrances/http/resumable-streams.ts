import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { DeliveryListener } from '../../protocol/channel.ts';
import { composeLostAnswer } from '../../protocol/compose-message.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import type { Session } from '../../sessions/session.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import { createEventBuffer, eventEnd } from './event-buffer.ts';

/** Limits of the events that are kept for clients that may come back. */
export interface ResumeLimits {
  readonly eventsPerStream: number;
  readonly bytesPerStream: number;
  /** Streams without a connection, of one transport session. */
  readonly streamsPerClient: number;
  readonly bytesPerClient: number;
  /** Streams without a connection, of all transport sessions of one user. */
  readonly streamsPerUser: number;
  readonly bytesPerUser: number;
  readonly streams: number;
  readonly bytes: number;
  /** How long a stream waits for its client. */
  readonly awayMs: number;
  /** How long a stream is kept after it was sent whole: the last bytes may have been lost on the way. */
  readonly sentMs: number;
}

const mebibyte = 1024 * 1024;
const defaultLimits: ResumeLimits = {
  eventsPerStream: 256,
  bytesPerStream: 4 * mebibyte,
  streamsPerClient: 32,
  bytesPerClient: 8 * mebibyte,
  streamsPerUser: 1024,
  bytesPerUser: 16 * mebibyte,
  streams: 4096,
  bytes: 64 * mebibyte,
  awayMs: 300_000,
  sentMs: 60_000,
};

/** The connection that a stream is sent on. */
export interface EventSink {
  /** Sends the bytes of whole events. False if the client reads too slowly. */
  writeEvents(bytes: Buffer): boolean;
  endEvents(): void;
  onDrain(listener: () => void): void;
  /** Reports once, to each delivery, whether the whole answer was sent. Call it before the answer is finished. */
  reportDelivery(deliveries: readonly DeliveryListener[]): void;
  /** Breaks the connection. */
  destroy(): void;
  /** Calls the listener when the connection breaks, or at once if it has broken already. */
  onGone(listener: () => void): void;
}

/** The client that a stream belongs to, and what its session was allowed when the stream began. */
export interface StreamOwner {
  readonly caller: Caller;
  readonly session: Session;
}

/**
 * A stream of events with ids. When the connection breaks, it keeps the events for the client, which continues with
 * `Last-Event-ID` (MCP 2025-03-26 and later, before 2026-07-28).
 */
export interface ResumableStream {
  /** Sends an event, or keeps it while the client is away. False if the client reads too slowly. */
  send(message: Buffer): boolean;
  /** Ends the stream, after a last message if there is one. */
  finish(message?: Buffer): void;
  /** Ends the stream for good: the client cannot continue it. */
  close(): void;
  /**
   * Closes the connection, so that the client comes back after this time. The stream goes on. `onBack` is called when
   * the client is back. Clients before 2025-11-25 do not expect this: their connection stays open.
   */
  suspend(retryMs: number, onBack: () => void): void;
  /** Sends an event without data, once for each connection. Earlier clients would read it as a message: they get none. */
  prime(): void;
  /** Tells that a connection has closed. */
  detach(sink: EventSink): void;
  /** The connection, while there is one. */
  sink(): EventSink | undefined;
  /** Sends the rest of the stream on another connection, which replaces the one before. */
  continueOn(sink: EventSink, after: number): void;
  /** Tells whether a request may continue the stream: the same client, with a session that may do the same. */
  belongsTo(owner: StreamOwner): boolean;
}

interface NewStream extends StreamOwner {
  /** A standing stream carries messages that belong to no request. The ids of requests are their JSON texts. */
  readonly requestIds: readonly string[] | 'standing';
  readonly sink: EventSink;
  /** How long the client waits before it continues the stream. */
  readonly retryMs?: number | undefined;
  /** Called once, when the client can no longer continue a stream that has not ended. */
  onLost(): void;
}

export interface ResumableStreams {
  /** Opens a stream on the connection of its request. */
  open(stream: NewStream): ResumableStream;
  /** Finds the stream of an event id, and the position in it. Its owner still has to be checked. */
  find(eventId: string): { readonly stream: ResumableStream; readonly after: number } | undefined;
  /** The streams and bytes that are kept. `away` counts the streams without a connection. */
  count(): { readonly streams: number; readonly away: number; readonly bytes: number };
}

/** Tells whether an event id names a standing stream. If it is not known, the client may open a new one. */
export function isStandingEventId(eventId: string): boolean {
  return eventId.startsWith('s');
}

/** Tells whether the client knows events without data, and streams that are closed before their end (SEP-1699). */
export function canSuspend({ version }: Caller): boolean {
  return version >= '2025-11-25';
}

const eventIdPattern = /^([as][A-Za-z0-9_-]{22})\.(0|[1-9][0-9]{0,14})$/;
/** How long clients wait before they continue a broken stream. */
const defaultRetryMs = 1000;

/** The streams of one client, of one user, or of all users, with their limits. */
interface StreamGroup {
  readonly maxBytes: number;
  readonly maxAway: number;
  bytes: number;
  /** The number of all its streams; counted for users only. */
  size: number;
  /** The streams without a connection, the longest away first. */
  readonly away: Set<KeptStream>;
}

function createGroup(maxAway: number, maxBytes: number): StreamGroup {
  return { maxAway, maxBytes, bytes: 0, size: 0, away: new Set() };
}

const isOverfull = ({ bytes, maxBytes }: StreamGroup) => bytes > maxBytes;

interface KeptStream extends ResumableStream {
  forget(): void;
  canContinue(after: number): boolean;
}

/** The streams of all clients. */
interface AllStreams {
  readonly limits: ResumeLimits;
  readonly streams: Map<string, KeptStream>;
  readonly everyone: StreamGroup;
  readonly byClient: WeakMap<Caller, StreamGroup>;
  readonly byUser: Map<string, StreamGroup>;
}

/**
 * Creates the streams of all clients. An id has 128 random bits and works only for the client that got it, so ids of
 * other clients and forgotten ids look alike.
 */
export function createResumableStreams(limits: ResumeLimits = defaultLimits): ResumableStreams {
  const everyone = createGroup(limits.streams, limits.bytes);
  const all: AllStreams = { limits, streams: new Map(), everyone, byClient: new WeakMap(), byUser: new Map() };
  return {
    open: (stream) => openStream(all, stream),
    find(eventId) {
      const [, id = '', number = ''] = eventIdPattern.exec(eventId) ?? [];
      const stream = all.streams.get(id);
      return stream?.canContinue(Number(number)) === true ? { stream, after: Number(number) } : undefined;
    },
    count: () => ({ streams: all.streams.size, away: everyone.away.size, bytes: everyone.bytes }),
  };
}

/** Adds a stream to its groups, the smallest first. One user must not push out the streams of others. */
function joinGroups(
  { limits, everyone, byClient, byUser }: AllStreams,
  { caller, session }: StreamOwner,
): readonly StreamGroup[] {
  const client = byClient.get(caller) ?? createClientGroup(caller, limits);
  const user = byUser.get(session.userId) ?? createGroup(limits.streamsPerUser, limits.bytesPerUser);
  byClient.set(caller, client);
  byUser.set(session.userId, user);
  user.size++;
  return [client, user, everyone];
}

/** Nobody comes back for the streams of a client that has ended, and they hold on to the processes of its session. */
function createClientGroup(caller: Caller, { streamsPerClient, bytesPerClient }: ResumeLimits): StreamGroup {
  const client = createGroup(streamsPerClient, bytesPerClient);
  caller.endListeners.add(() => {
    for (const stream of [...client.away]) stream.forget();
  });
  return client;
}

function leaveUser({ byUser }: AllStreams, { userId }: Session): void {
  const user = byUser.get(userId);
  if (user !== undefined && --user.size === 0) byUser.delete(userId);
}

function openStream(
  all: AllStreams,
  { caller, session, requestIds, sink: firstSink, retryMs = defaultRetryMs, ...answer }: NewStream,
): ResumableStream {
  const id = `${requestIds === 'standing' ? 's' : 'a'}${randomBytes(16).toString('base64url')}`;
  const { limits, streams } = all;
  const groups = joinGroups(all, { caller, session });
  const kept = createEventBuffer(id, (change) => {
    for (const group of groups) group.bytes += change;
  });
  let sink: EventSink | undefined = firstSink;
  let state: 'open' | 'finished' | 'lost' | 'forgotten' = 'open';
  let timer: NodeJS.Timeout | undefined;
  // An ended stream must not keep its request in memory.
  let onLost: (() => void) | undefined = answer.onLost;
  let onBack: (() => void) | undefined;
  /** The time in the priming event of this connection. */
  let primedMs: number | undefined;

  function keepFor(ms: number): void {
    if (caller.isEnded) {
      stream.forget();
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => stream.forget(), ms).unref();
    for (const { away } of groups) away.add(stream);
    for (const { away, maxAway } of groups) while (away.size > maxAway) away.values().next().value?.forget();
  }

  function noteConnected(): void {
    clearTimeout(timer);
    for (const { away } of groups) away.delete(stream);
  }

  /** Frees the events of a client that is away and has missed too many of them. It is told so when it comes back. */
  function markLost(): void {
    kept.clear();
    kept.first = Number.POSITIVE_INFINITY;
    if (state !== 'open') return;
    state = 'lost';
    onLost?.();
    onLost = undefined;
  }

  /** Makes room by the longest absent streams of the client, its user and all users, then of this stream itself. */
  function makeRoom(): void {
    const isFull = () =>
      kept.events.length > limits.eventsPerStream || kept.bytes > limits.bytesPerStream || groups.some(isOverfull);
    for (const group of groups)
      for (const other of group.away) if (other !== stream && isOverfull(group)) other.forget();
    if (sink === undefined && isFull()) markLost();
    while (isFull()) if (!kept.dropOldest()) return;
  }

  function sendPriming(to: EventSink, ms: number): void {
    primedMs = ms;
    to.writeEvents(keep(Buffer.alloc(0), `retry: ${ms}\n`));
  }

  function keep(text: Buffer, lead: string): Buffer {
    const event = kept.add(text, lead);
    makeRoom();
    return event;
  }

  const stream: KeptStream = {
    sink: () => sink,
    belongsTo: (owner) => owner.caller === caller && isDeepStrictEqual(limitsOf(owner.session), limitsOf(session)),
    canContinue: (after) => after <= kept.last && (requestIds !== 'standing' || after + 1 >= kept.first),
    send(message) {
      if (state !== 'open') return true;
      const event = keep(toSingleLine(message), '');
      return sink?.writeEvents(event) ?? true;
    },
    finish(message) {
      if (state !== 'open') return;
      if (message !== undefined) stream.send(message);
      if ((state as string) !== 'open') return;
      state = 'finished';
      onLost = undefined;
      sink?.endEvents();
      keepFor(sink === undefined ? limits.awayMs : limits.sentMs);
      sink = undefined;
    },
    close() {
      const connected = sink;
      stream.forget();
      connected?.endEvents();
    },
    suspend(ms, listener) {
      if (state !== 'open' || !canSuspend(caller)) return;
      onBack = listener;
      if (sink === undefined) return;
      if (primedMs !== ms) sendPriming(sink, ms);
      sink.endEvents();
      sink = undefined;
      keepFor(limits.awayMs);
    },
    prime() {
      if (state === 'open' && sink && primedMs === undefined && canSuspend(caller)) sendPriming(sink, retryMs);
    },
    detach(closed) {
      if (sink !== closed || state !== 'open') return;
      sink = undefined;
      // A client that got no id cannot come back for the rest.
      if (kept.last === -1) stream.forget();
      else keepFor(limits.awayMs);
    },
    continueOn(next, after) {
      sink?.destroy();
      sink = next;
      primedMs = undefined;
      noteConnected();
      if (after + 1 < kept.first) {
        sendLoss(next, requestIds);
        stream.forget();
        return;
      }
      // The client has read the events up to this one.
      while (kept.first <= after && kept.dropOldest());
      if (kept.events.length > 0) next.writeEvents(Buffer.concat(kept.events));
      if (state === 'open') {
        onBack?.();
        onBack = undefined;
        // The connection may have broken while the request was checked.
        next.onGone(() => stream.detach(next));
        return;
      }
      next.endEvents();
      sink = undefined;
      keepFor(limits.sentMs);
    },
    forget() {
      if (state === 'forgotten') return;
      noteConnected();
      streams.delete(id);
      leaveUser(all, session);
      kept.clear();
      state = 'forgotten';
      sink = undefined;
      onBack = undefined;
      onLost?.();
      onLost = undefined;
    },
  };
  streams.set(id, stream);
  stream.prime();
  return stream;
}

const eventStart = Buffer.from('event: message\ndata: ');

/** Returns everything that a restriction of the session, or a token with fewer scopes, can take away. */
function limitsOf({ id, trustLevel, servers, permissions, tokenPermissions }: Session): unknown {
  return [id, trustLevel, servers, permissions, tokenPermissions];
}

function sendLoss(to: EventSink, requestIds: NewStream['requestIds']): void {
  for (const requestId of requestIds === 'standing' ? [] : requestIds)
    to.writeEvents(Buffer.concat([eventStart, composeLostAnswer(requestId), eventEnd]));
  to.endEvents();
}
