import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import type { Channel, DeliveryListener } from '../../protocol/channel.ts';
import { composeRequestRefusal } from '../../protocol/compose-message.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import type { ReservedBytes } from './read-body.ts';

/**
 * The answer to one POST, or the stream of a GET. It is plain JSON unless a message has to be sent before the final
 * one; then it is a stream of events.
 */
export interface Answer {
  readonly channel: Channel;
  isStreaming(): boolean;
  /** Counts long messages until the client has read them. A message without room is not sent. */
  limitUnread(unread: ReservedBytes): void;
  /** Starts the stream without a message. */
  startStream(headers?: Readonly<Record<string, string>>): void;
  finish(bytes: Buffer, status: number, headers?: Readonly<Record<string, string>>): void;
  /** Reports once, to each delivery, whether the whole answer was sent. Call it before the answer is finished. */
  reportDelivery(deliveries: readonly DeliveryListener[]): void;
  /** Ends without a message. */
  finishEmpty(status: number, headers?: Readonly<Record<string, string>>): void;
}

const keepAliveMs = 15_000;
const drainTimeoutMs = 30_000;
const shortBytes = 16 * 1024;
export const eventStreamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // A proxy that buffers would deliver progress too late.
  'x-accel-buffering': 'no',
};
const eventStart = Buffer.from('event: message\ndata: ');
const eventEnd = Buffer.from('\n\n');

function ignore(): void {}

/** Creates the answer to a request. `refused` is called with the status of each refusal. */
export function createAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  refused: (status: number) => void,
): Answer {
  return new HttpAnswer(response, !acceptsEvents(request), refused);
}

/** A class, because one is made for every request: closures and getters would be the most expensive part of a call. */
class HttpAnswer implements Answer, Channel {
  readonly channel: Channel = this;
  readonly owner: ServerResponse;
  readonly #mute: boolean;
  readonly #refused: (status: number) => void;
  #streaming = false;
  #gone = false;
  #keepAlive: NodeJS.Timeout | undefined = undefined;
  #stuck: NodeJS.Timeout | undefined = undefined;
  #drainListeners: (() => void)[] | undefined = undefined;
  #goneListeners: (() => void)[] | undefined = undefined;
  #unread: ReservedBytes | undefined = undefined;

  constructor(response: ServerResponse, mute: boolean, refused: (status: number) => void) {
    this.owner = response;
    this.#mute = mute;
    this.#refused = refused;
    response.on('close', () => this.#closed());
    response.on('error', ignore);
  }

  #closed(): void {
    if (this.#keepAlive !== undefined) clearInterval(this.#keepAlive);
    this.#unread?.release();
    if (this.owner.writableFinished) this.#gone = true;
    else this.#leave();
    this.#drained();
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
    if (!this.#hasRoomFor(bytes)) {
      this.owner.destroy();
      return true;
    }
    const line = toSingleLine(bytes);
    const room = this.owner.write(
      Buffer.concat([eventStart, line, eventEnd], eventStart.length + line.length + eventEnd.length),
    );
    // A client that stops reading would block all clients of the same upstream.
    if (!room) this.#stuck ??= setTimeout(() => this.owner.destroy(), drainTimeoutMs).unref();
    return room;
  }

  limitUnread(unread: ReservedBytes): void {
    this.#unread = unread;
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
    return this.#gone || this.#mute || this.owner.writableEnded;
  }

  startStream(headers: Readonly<Record<string, string>> = {}): void {
    if (this.#streaming || this.#gone) return;
    const response = this.owner;
    this.#streaming = true;
    response.writeHead(200, { ...eventStreamHeaders, ...headers });
    response.flushHeaders();
    response.on('drain', () => {
      this.#unread?.release();
      this.#drained();
    });
    this.#keepAlive = setInterval(() => response.write(': keep-alive\n\n'), keepAliveMs).unref();
  }

  emit(message: Buffer): boolean {
    if (this.isGone()) return true;
    this.startStream();
    return this.#event(message);
  }

  onDrain(listener: () => void): void {
    // The stream may have drained since the write.
    if (this.#gone || !this.owner.writableNeedDrain) listener();
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
    this.owner.end();
    this.#leave();
  }

  finish(bytes: Buffer, status: number, headers?: Readonly<Record<string, string>>): void {
    if (this.#gone) return;
    const response = this.owner;
    if (this.#streaming) {
      this.#event(bytes);
      response.end();
      return;
    }
    if (!this.#hasRoomFor(bytes)) {
      this.finish(composeRequestRefusal('null', tooMuchUnreadError()), 503, { 'retry-after': '1' });
      return;
    }
    if (status >= 400) this.#refused(status);
    const length = bytes.length;
    const own = { 'content-type': 'application/json', 'content-length': length };
    response.writeHead(status, headers === undefined ? own : { ...own, ...headers });
    // Node sends a short text together with the head in one write, but a buffer separately.
    if (length <= shortBytes) response.end(bytes.toString('utf8'));
    else {
      response.end(bytes);
      // The timeout restarts with each progress, so a slow reader is not cut off.
      response.setTimeout(drainTimeoutMs, () => response.destroy());
    }
  }

  reportDelivery(deliveries: readonly DeliveryListener[]): void {
    const response = this.owner;
    if (deliveries.length === 0) return;
    if (this.#gone || response.destroyed) {
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
    if (status >= 400) this.#refused(status);
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

function acceptsEvents(request: IncomingMessage): boolean {
  const { accept } = request.headers;
  return (
    accept === undefined || accept.includes('text/event-stream') || accept.includes('*/*') || accept.includes('text/*')
  );
}
