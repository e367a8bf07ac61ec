import type { IncomingMessage } from 'node:http';
import type { Channel } from '../../../protocol/channel.ts';
import { discardResponse, type PendingResponse } from './send-request.ts';

/** The place in a stream from which it can be resumed (SEP-1699). */
export interface StreamPosition {
  /** The id of the last event; undefined where the upstream gives none that can be sent back. */
  readonly eventId: string | undefined;
  /** The time that the upstream wants a client to wait before it reconnects. */
  readonly retryMs: number;
  /** True if the upstream has set that time. */
  readonly asksToReturn: boolean;
  onEventId(id: string | undefined): void;
  onRetry(ms: number): void;
}

const defaultRetryMs = 1000;
/** The shortest and the longest wait that an upstream can set. */
const minRetryMs = 100;
const maxRetryMs = 60_000;
/** The number of attempts in a row that may fail before a call is given up. */
const maxFailures = 5;

export function createStreamPosition(): StreamPosition {
  let eventId: string | undefined;
  let retryMs = defaultRetryMs;
  let asksToReturn = false;
  return {
    get eventId() {
      return eventId;
    },
    get retryMs() {
      return retryMs;
    },
    get asksToReturn() {
      return asksToReturn;
    },
    onEventId(id) {
      eventId = id;
    },
    onRetry(ms) {
      asksToReturn = true;
      retryMs = Math.min(Math.max(ms, minRetryMs), maxRetryMs);
    },
  };
}

/** Opens a stream after an event. */
type OpenStream = (eventId: string | undefined) => PendingResponse;

/** Takes the function that gives up the current attempt or wait. */
type SetAbort = (abort: () => void) => void;

/**
 * Resumes the stream of a call that the upstream closed before the answer. Undefined when nobody wants the answer any
 * more, or the upstream cannot resume the stream.
 */
export async function resumeStream(
  position: StreamPosition,
  open: OpenStream,
  isWanted: () => boolean,
  setAbort: SetAbort,
  channel: Channel | undefined,
  /** True the first time that the stream of a call is resumed. */
  isFirst: boolean,
): Promise<IncomingMessage | undefined> {
  for (let failures = 0; failures < maxFailures; failures++) {
    const wait = waitToReconnect(position, failures, setAbort);
    // The return of the client ends the first wait of a call only: a client that ignores the time cannot make Ambit poll.
    if (failures === 0) channel?.suspend?.(position.retryMs, isFirst ? wait.end : () => {});
    await wait.over;
    if (!isWanted()) return undefined;
    const sending = open(position.eventId);
    setAbort(sending.abort);
    const response = await sending.response.catch(() => undefined);
    if (response === undefined) continue;
    if (response.statusCode === 200) return response;
    discardResponse(response);
    if (!isTemporary(response)) return undefined;
  }
  return undefined;
}

/** The upstream's stream for messages that no request waits for. */
export interface EventStream {
  /** Opens the stream again from its beginning, in a new session with the upstream. */
  restart(): void;
  end(): void;
}

/** Keeps a stream open. One that closes is resumed after its last event, as long as the upstream has such a stream. */
export function createEventStream(
  open: OpenStream,
  read: (response: IncomingMessage, position: StreamPosition) => Promise<void>,
): EventStream {
  let stop = readForever(open, read);
  return {
    restart() {
      stop();
      stop = readForever(open, read);
    },
    end: () => stop(),
  };
}

function readForever(open: OpenStream, read: Parameters<typeof createEventStream>[1]): () => void {
  const position = createStreamPosition();
  let isOver = false;
  let abort = () => {};
  const setAbort: SetAbort = (given) => {
    abort = given;
  };

  /** Returns false when another attempt makes no sense. */
  async function readOnce(): Promise<boolean> {
    const sending = open(position.eventId);
    setAbort(sending.abort);
    const response = await sending.response;
    if (response.statusCode === 200) {
      await read(response, position).catch(() => {});
      return true;
    }
    discardResponse(response);
    // 405 means a server without such a stream, and 404 one that has lost the session.
    return isTemporary(response);
  }

  async function readOn(): Promise<void> {
    for (let failures = 0; !isOver; ) {
      const began = Date.now();
      const mayGoOn = await readOnce().catch(() => undefined);
      if (isOver || mayGoOn === false) return;
      failures = mayGoOn === undefined || Date.now() - began < minRetryMs ? failures + 1 : 0;
      await waitToReconnect(position, Math.max(failures - 1, 0), setAbort).over;
    }
  }

  void readOn();
  return () => {
    isOver = true;
    abort();
  };
}

/** Waits as long as the upstream wants, and twice as long after each failure. */
function waitToReconnect(
  { retryMs }: StreamPosition,
  failures: number,
  setAbort: SetAbort,
): { readonly over: Promise<void>; end(): void } {
  let end = () => {};
  const over = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, Math.min(retryMs * 2 ** failures, maxRetryMs)).unref();
    end = () => {
      clearTimeout(timer);
      resolve();
    };
  });
  setAbort(end);
  return { over, end };
}

function isTemporary({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 500 || [408, 425, 429].includes(statusCode);
}
