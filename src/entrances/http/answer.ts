import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import type { Exchange, PreparedExchange } from '../../gateway/exchange.ts';
import type { TransportRequest } from '../../gateway/stages/handle-transport.ts';
import { type SetEntry, ShortLivedSet } from '../../lib/async/short-lived-set.ts';
import type { Channel, DeliveryListener } from '../../protocol/channel.ts';
import { composeRequestRefusal } from '../../protocol/compose-message.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import { eventEnd } from './event-buffer.ts';
import type { ReservedBytes } from './read-body.ts';
import type { RequestGroups } from './request-groups.ts';
import { canSuspend, type EventSink, type ResumableStream, type ResumableStreams } from './resumable-streams.ts';

/**
 * The answer to one POST, or the stream of a GET. It is a stream of events if a message has to be sent before the final
 * one, or if the server answers with a stream. Otherwise it is plain JSON.
 */
export interface Answer extends EventSink {
  readonly channel: Channel;
  isStreaming(): boolean;
  /**
   * Says which request the answer waits for. If it takes long, the answer becomes a stream, so that proxies and clients
   * do not give up. A handshake-era client can continue the stream after a broken connection.
   */
  waitFor(exchange: Exchange | TransportRequest): void;
  /** Counts long messages until the client has read them. A message without room is not sent. */
  limitUnread(unread: ReservedBytes): void;
  /** Starts the stream without a message. */
  startStream(headers?: Readonly<Record<string, string>>): void;
  finish(bytes: Buffer, status: number, headers?: Readonly<Record<string, string>>): void;
  /** Ends without a message. */
  finishEmpty(status: number, headers?: Readonly<Record<string, string>>): void;
}

/** Comments are sent after this time without an event. */
const keepAliveMs = 15_000;
const ticksPerComment = 3;
const keepAlive = Buffer.from(': keep-alive\n\n');
const drainTimeoutMs = 30_000;
const shortBytes = 16 * 1024;
const eventStreamType = 'text/event-stream';
export const eventStreamHeaders = {
  'content-type': eventStreamType,
  'cache-control': 'no-cache, no-transform',
  // A proxy that buffers would deliver progress too late.
  'x-accel-buffering': 'no',
};
const eventStart = Buffer.from('event: message\ndata: ');

function ignore(): void {}

/** Finds the open answers that have been silent for long. One timer serves all of them. */
export interface KeepAlive {
  readonly open: ShortLivedSet<{ tick(): void }>;
  /** Is called three times per interval. */
  tick(): void;
  close(): void;
}

export function createKeepAlive(everyMs = keepAliveMs): KeepAlive {
  const open: KeepAlive['open'] = new ShortLivedSet();
  const tick = () => {
    for (const answer of open) answer.tick();
  };
  const timer = setInterval(tick, everyMs / ticksPerComment).unref();
  return { open, tick, close: () => clearInterval(timer) };
}

/** The parts that all answers share. */
export interface AnswerParts {
  /** Called with the status of each refusal. */
  readonly refused: (status: number) => void;
  readonly keepAlive: KeepAlive;
  readonly groups: RequestGroups;
  readonly streams: ResumableStreams;
}

export function createAnswer(request: IncomingMessage, response: ServerResponse, parts: AnswerParts): Answer {
  return new HttpAnswer(response, request.headers.accept, parts);
}

/** A class, because one is made for every request: closures and getters would be the most expensive part of a call. */
class HttpAnswer implements Answer, Channel {
  readonly channel: Channel = this;
  readonly owner: ServerResponse;
  readonly #mute: boolean;
  readonly #parts: AnswerParts;
  /** True if the answer has to be a stream of events even if it is a single message. */
  #prefersEvents: boolean;
  #streaming = false;
  /** True while the answer counts as one that a client waits for. */
  #isAwaited = true;
  #gone = false;
  #quietTicks = 0;
  /** The entry of this answer in the set of open answers. */
  #kept: SetEntry<{ tick(): void }> | undefined = undefined;
  #exchange: Exchange | TransportRequest | undefined = undefined;
  #requestIds: string[] | undefined = undefined;
  /** The stream that outlives the connection. Undefined if the client cannot continue it. */
  #stream: ResumableStream | undefined = undefined;
  #stuck: NodeJS.Timeout | undefined = undefined;
  #drainListeners: (() => void)[] | undefined = undefined;
  #goneListeners: (() => void)[] | undefined = undefined;
  #unread: ReservedBytes | undefined = undefined;

  constructor(response: ServerResponse, accept: string | undefined, parts: AnswerParts) {
    this.owner = response;
    this.#mute = !acceptsEvents(accept);
    // A server on stdio has no form of its own. The type that the client names first decides.
    this.#prefersEvents = accept?.startsWith(eventStreamType) === true;
    this.#parts = parts;
    parts.groups.enter();
    response.on('close', () => this.#closed());
    response.on('error', ignore);
  }

  #closed(): void {
    this.#leaveGroups();
    if (this.#kept !== undefined) this.#parts.keepAlive.open.remove(this.#kept);
    this.#unread?.release();
    if (this.#stream !== undefined) this.#stream.detach(this);
    else if (this.owner.writableFinished) this.#gone = true;
    else this.#leave();
    this.#drained();
  }

  #leaveGroups(): void {
    if (this.#isAwaited) this.#parts.groups.leave();
    this.#isAwaited = false;
  }

  #leave(): void {
    if (this.#gone) return;
    this.#gone = true;
    for (const listener of this.#goneListeners ?? []) listener();
  }

  /** Runs also when the stream closes, because an ended stream never emits `drain`. */
  #drained(): void {
    if (this.#stuck !== undefined) clearTimeout(this.#stuck);
    this.#stuck = undefined;
    const listeners = this.#drainListeners;
    this.#drainListeners = undefined;
    for (const listener of listeners ?? []) listener();
  }

  #event(bytes: Buffer): boolean {
    if (this.#stream !== undefined) return this.#stream.send(bytes);
    const line = toSingleLine(bytes);
    return this.writeEvents(
      Buffer.concat([eventStart, line, eventEnd], eventStart.length + line.length + eventEnd.length),
    );
  }

  writeEvents(bytes: Buffer): boolean {
    if (!this.#hasRoomFor(bytes)) {
      this.owner.destroy();
      return true;
    }
    this.#quietTicks = 0;
    const room = this.owner.write(bytes);
    // A client that stops reading would block all clients of the same upstream.
    if (!room) this.#stuck ??= setTimeout(() => this.owner.destroy(), drainTimeoutMs).unref();
    return room;
  }

  endEvents(): void {
    this.owner.end();
  }

  destroy(): void {
    this.owner.destroy();
  }

  limitUnread(unread: ReservedBytes): void {
    this.#unread = unread;
  }

  waitFor(exchange: Exchange | TransportRequest): void {
    const { message } = exchange as Partial<Exchange>;
    if (this.#gone || this.#mute || (message !== undefined && message.kind !== 'request')) return;
    this.#exchange = exchange;
    if (exchange.era === 'handshake' && message !== undefined) {
      if (this.#requestIds === undefined) this.#requestIds = [message.id as string];
      else this.#requestIds.push(message.id as string);
    }
    this.#kept ??= this.#parts.keepAlive.open.add(this);
  }

  /** Sends a comment after a silence. An answer that has not begun becomes a stream, if its status is known to be 200. */
  tick(): void {
    if (++this.#quietTicks < ticksPerComment) return;
    this.#quietTicks = 0;
    if (this.#gone || this.owner.writableEnded || this.owner.writableNeedDrain) return;
    if (!this.#streaming && !this.#isSent()) return;
    this.startStream();
    this.owner.write(keepAlive);
  }

  /**
   * Tells whether the request has passed the stages that answer with another status. The answer to `initialize` has a
   * header that is not known before.
   */
  #isSent(): boolean {
    const { outgoing, era } = (this.#exchange ?? {}) as Partial<PreparedExchange>;
    return outgoing !== undefined && (era === 'modern' || outgoing.method !== 'initialize');
  }

  /**
   * Short messages are not counted, unless they wait behind another answer of their connection and have no socket yet.
   */
  #hasRoomFor({ length }: Buffer): boolean {
    if (length <= shortBytes && this.owner.socket !== null) return true;
    return this.#unread?.add(length) !== false;
  }

  isStreaming(): boolean {
    return this.#streaming;
  }

  isGone(): boolean {
    return this.#gone || this.#mute || (this.#stream === undefined && this.owner.writableEnded);
  }

  isAway(): boolean {
    return this.#sink() === undefined;
  }

  /** Returns the connection that the answer is sent on: its own, or the one on which the client continues the stream. */
  #sink(): EventSink | undefined {
    return this.#stream === undefined ? this : this.#stream.sink();
  }

  followForm(isStream: boolean): void {
    this.#prefersEvents = isStream;
  }

  suspend(retryMs: number, onBack: () => void): void {
    if (this.isGone()) return;
    const { caller } = (this.#exchange ?? {}) as Partial<PreparedExchange>;
    if (caller !== undefined && canSuspend(caller)) this.startStream({}, retryMs);
    this.#stream?.suspend(retryMs, onBack);
  }

  prime(): void {
    this.#stream?.prime();
  }

  startStream(headers: Readonly<Record<string, string>> = {}, retryMs?: number): void {
    if (this.#streaming || this.#gone) return;
    const response = this.owner;
    this.#streaming = true;
    this.#leaveGroups();
    response.writeHead(200, { ...eventStreamHeaders, ...headers });
    response.flushHeaders();
    response.on('drain', () => {
      this.#unread?.release();
      this.#drained();
    });
    this.#kept ??= this.#parts.keepAlive.open.add(this);
    // The stages add to the exchange: it has a client as soon as the client was checked.
    const { caller, session } = (this.#exchange ?? {}) as Partial<PreparedExchange>;
    this.#exchange = undefined;
    if (caller === undefined || session === undefined) return;
    const onLost = () => this.#leave();
    const requestIds = this.#requestIds ?? 'standing';
    this.#stream = this.#parts.streams.open({ caller, session, requestIds, sink: this, retryMs, onLost });
  }

  emit(message: Buffer): boolean {
    if (this.isGone()) return true;
    this.startStream();
    return this.#event(message);
  }

  onDrain(listener: () => void): void {
    const sink = this.#sink();
    if (sink !== undefined && sink !== this) sink.onDrain(listener);
    // The stream may have drained since the write.
    else if (this.#gone || sink === undefined || !this.owner.writableNeedDrain) listener();
    else {
      this.#drainListeners ??= [];
      this.#drainListeners.push(listener);
    }
  }

  onGone(listener: () => void): void {
    if (this.#gone) listener();
    else if (this.#goneListeners === undefined) this.#goneListeners = [listener];
    else this.#goneListeners.push(listener);
  }

  close(): void {
    if (this.#gone || !this.#streaming) return;
    if (this.#stream !== undefined) this.#stream.close();
    else this.owner.end();
    this.#leave();
  }

  finish(bytes: Buffer, status: number, headers?: Readonly<Record<string, string>>): void {
    if (this.#gone) return;
    const response = this.owner;
    if (this.#prefersEvents && status === 200 && !this.#mute) this.startStream(headers);
    if (this.#stream !== undefined) {
      this.#stream.finish(bytes);
      return;
    }
    if (this.#streaming) {
      this.#event(bytes);
      response.end();
      return;
    }
    if (!this.#hasRoomFor(bytes)) {
      this.finish(composeRequestRefusal('null', tooMuchUnreadError()), 503, { 'retry-after': '1' });
      return;
    }
    if (status >= 400) this.#parts.refused(status);
    const length = bytes.length;
    const own = { 'content-type': 'application/json', 'content-length': length };
    response.writeHead(status, headers === undefined ? own : { ...own, ...headers });
    // Node sends a short text together with the head in one write, but a buffer separately. In latin1 each character is a
    // byte, so the bytes stay what they are, and need no decoding.
    if (length <= shortBytes) response.end(bytes.toString('latin1'), 'latin1');
    else {
      response.end(bytes);
      // The timeout restarts with each progress, so a slow reader is not cut off.
      response.setTimeout(drainTimeoutMs, () => response.destroy());
    }
  }

  reportDelivery(deliveries: readonly DeliveryListener[]): void {
    if (deliveries.length === 0) return;
    const sink = this.#sink();
    if (sink !== undefined && sink !== this) {
      sink.reportDelivery(deliveries);
      return;
    }
    const response = this.owner;
    // A client that is away may come back for the answer. Until then it has not got it.
    if (this.#gone || sink === undefined || response.destroyed) {
      for (const delivery of deliveries) delivery.lost();
      return;
    }
    // The request knows its connection from the start. An answer that waits behind another one has none yet.
    const { socket } = response.req;
    const report = () => {
      // Node emits `finish` even if the connection broke.
      const delivered = !socket.destroyed;
      for (const delivery of deliveries) delivered ? delivery.delivered() : delivery.lost();
    };
    response.once('finish', report);
    response.once('close', report);
  }

  finishEmpty(status: number, headers?: Readonly<Record<string, string>>): void {
    if (this.#gone) return;
    if (status >= 400) this.#parts.refused(status);
    if (this.#stream !== undefined) {
      this.#stream.finish();
      return;
    }
    if (!this.#streaming) this.owner.writeHead(status, { 'content-length': 0, ...headers });
    this.owner.end();
  }
}

function tooMuchUnreadError(): AmbitError {
  return new AmbitError('OVERLOADED', {
    what: 'The client has too many unread answers, so this answer was dropped. The call itself was made.',
    hint: 'Read the pending answers, then check what the call has done.',
    rule: 'limits.messageBytes',
  });
}

function acceptsEvents(accept: string | undefined): boolean {
  return (
    accept === undefined || accept.includes(eventStreamType) || accept.includes('*/*') || accept.includes('text/*')
  );
}
