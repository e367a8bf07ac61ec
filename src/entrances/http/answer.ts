import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Channel } from '../../wire/channel.ts';
import { oneLine } from '../../wire/one-line.ts';

/**
 * The answer to one POST, or a GET's stream. It is plain JSON until something has to be said before the final
 * message; then it becomes a stream of events.
 */
export interface Answer {
  readonly channel: Channel;
  readonly streaming: boolean;
  /** Starts the stream without saying anything yet. */
  stream(headers?: Readonly<Record<string, string>>): void;
  finish(bytes: Buffer, status: number, headers?: Readonly<Record<string, string>>): void;
  /** Ends without a message. */
  empty(status: number, headers?: Readonly<Record<string, string>>): void;
}

const keepAliveMs = 15_000;
const stuckMs = 30_000;
const shortBytes = 16 * 1024;
const streamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // Proxies that buffer would turn progress into history.
  'x-accel-buffering': 'no',
};
const before = Buffer.from('event: message\ndata: ');
const after = Buffer.from('\n\n');

function ignore(): void {}

export function createAnswer(request: IncomingMessage, response: ServerResponse): Answer {
  let streaming = false;
  let gone = false;
  let keepAlive: NodeJS.Timeout | undefined;
  let stuck: NodeJS.Timeout | undefined;
  let drainListeners: (() => void)[] = [];
  const goneListeners: (() => void)[] = [];
  const mute = !acceptsEvents(request);

  response.on('close', () => {
    clearInterval(keepAlive);
    if (response.writableFinished) gone = true;
    else leave();
    drained();
  });
  response.on('error', ignore);

  function leave(): void {
    if (gone) return;
    gone = true;
    for (const listener of goneListeners) listener();
  }

  /** An ended stream never says that it has drained: closing it has to count, or whoever waits would wait for ever. */
  function drained(): void {
    clearTimeout(stuck);
    stuck = undefined;
    const listeners = drainListeners;
    drainListeners = [];
    for (const listener of listeners) listener();
  }

  function stream(headers: Readonly<Record<string, string>> = {}): void {
    if (streaming || gone) return;
    streaming = true;
    response.writeHead(200, { ...streamHeaders, ...headers });
    response.flushHeaders();
    response.on('drain', drained);
    keepAlive = setInterval(() => response.write(': keep-alive\n\n'), keepAliveMs).unref();
  }

  function event(bytes: Buffer): boolean {
    const line = oneLine(bytes);
    const room = response.write(Buffer.concat([before, line, after], before.length + line.length + after.length));
    // A client that keeps its connection but stops reading would hold back everyone who shares its upstream.
    if (!room) stuck ??= setTimeout(() => response.destroy(), stuckMs).unref();
    return room;
  }

  const channel: Channel = {
    owner: response,
    get gone() {
      return gone || mute || response.writableEnded;
    },
    emit(message) {
      if (channel.gone) return true;
      stream();
      return event(message);
    },
    onDrain(listener) {
      // It may have drained between the full write and the question.
      if (gone || !response.writableNeedDrain) listener();
      else drainListeners.push(listener);
    },
    onGone(listener) {
      if (gone) listener();
      else goneListeners.push(listener);
    },
    close() {
      if (gone || !streaming) return;
      response.end();
      leave();
    },
  };

  return {
    channel,
    get streaming() {
      return streaming;
    },
    stream,
    finish(bytes, status, headers) {
      if (gone) return;
      if (streaming) {
        event(bytes);
        response.end();
        return;
      }
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length, ...headers });
      // Node sends a short text together with the head, in one write; bytes it would send apart.
      if (bytes.length <= shortBytes) response.end(bytes.toString('utf8'));
      else {
        response.end(bytes);
        // Progress counts: a slow reader gets all the time it needs, one that has stopped does not.
        response.setTimeout(stuckMs, () => response.destroy());
      }
    },
    empty(status, headers) {
      if (gone) return;
      if (!streaming) response.writeHead(status, { 'content-length': 0, ...headers });
      response.end();
    },
  };
}

function acceptsEvents(request: IncomingMessage): boolean {
  const { accept } = request.headers;
  return (
    accept === undefined || accept.includes('text/event-stream') || accept.includes('*/*') || accept.includes('text/*')
  );
}
