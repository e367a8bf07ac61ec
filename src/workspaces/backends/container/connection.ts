import type { Readable, Writable } from 'node:stream';
import { AmbitError } from '../../../errors.ts';
import {
  changingRequests,
  createFrameReader,
  encodeFrame,
  type FilesRequest,
  type FrameHead,
} from './files-protocol.ts';
import { parseRefusal } from './response-schemas.ts';

/** Limits the number of calls at a time and their total weight, in order of arrival. */
interface WeightLimit {
  /** Resolves to the function that releases. */
  acquire(weight: number): Promise<() => void>;
}

export interface FilesCall<T> {
  readonly request: FilesRequest;
  readonly body?: Uint8Array;
  /** The largest body of the response; 0 by default. */
  readonly maxBodyBytes?: number;
  /** Throws for an invalid response. */
  parse(ok: unknown, body: Buffer): T;
}

export interface FilesConnection {
  ask<T>(call: FilesCall<T>): Promise<T>;
  /** Rejects all pending and later calls. */
  fail(): void;
}

export interface FilesConnectionOptions {
  /** The total size of bodies sent at a time; a single larger one is sent alone. */
  readonly maxContentBytes: number;
  /** Called once when the connection has failed, before pending calls are rejected. */
  onFailed?(): void;
  /** Called once for an invalid response or a timeout. */
  onBroken(why: Error): void;
  readonly timeoutMs?: number;
}

interface PendingCall {
  readonly call: FilesCall<unknown>;
  readonly timeout: NodeJS.Timeout;
  accept(value: unknown): void;
  reject(error: unknown): void;
}

const maxPending = 64;

/** Sends calls to the program at the other end of two streams, many at a time. */
export function connectToFiles(stdin: Writable, stdout: Readable, options: FilesConnectionOptions): FilesConnection {
  const { maxContentBytes, onBroken, timeoutMs = 120_000 } = options;
  const pending = new Map<number, PendingCall>();
  const limit = createWeightLimit({ maxCount: maxPending, maxWeight: maxContentBytes });
  let lastId = 0;
  let hasFailed = false;

  const reader = createFrameReader({ maxBodyBytes: (head) => findPending(head).call.maxBodyBytes ?? 0, onFrame });
  stdout.on('data', (chunk: Buffer) => {
    if (hasFailed) return;
    try {
      reader.push(chunk);
    } catch (error) {
      breakConnection(error as Error);
    }
  });

  function findPending({ id }: FrameHead): PendingCall {
    const found = pending.get(id as number);
    if (found === undefined) throw new Error('An answer without a matching request.');
    return found;
  }

  function onFrame(head: FrameHead, body: Buffer): void {
    const { call, timeout, accept, reject } = findPending(head);
    const refusal = head['error'] === undefined ? undefined : parseRefusal(head['error']);
    const value = refusal === undefined ? call.parse(head['ok'], body) : undefined;
    pending.delete(head['id'] as number);
    clearTimeout(timeout);
    if (refusal === undefined) accept(value);
    else reject(refusal);
  }

  function breakConnection(why: Error): void {
    if (hasFailed) return;
    fail();
    onBroken(why);
  }

  function fail(): void {
    if (hasFailed) return;
    hasFailed = true;
    options.onFailed?.();
    for (const { call, timeout, reject } of pending.values()) {
      clearTimeout(timeout);
      reject(unansweredError(call.request));
    }
    pending.clear();
  }

  function send<T>(call: FilesCall<T>): Promise<T> {
    return new Promise<T>((accept, reject) => {
      if (hasFailed) {
        reject(new AmbitError('WORKSPACE_UNAVAILABLE'));
        return;
      }
      const id = ++lastId;
      const timeout = setTimeout(() => breakConnection(new Error('It did not answer in time.')), timeoutMs);
      pending.set(id, { call, timeout, accept: accept as (value: unknown) => void, reject });
      for (const part of encodeFrame({ id, ...call.request }, call.body)) stdin.write(part);
    });
  }

  return {
    async ask(call) {
      const release = await limit.acquire(call.body?.length ?? 0);
      try {
        return await send(call);
      } finally {
        release();
      }
    },
    fail,
  };
}

function unansweredError(request: FilesRequest): AmbitError {
  if (!changingRequests.has(request.do)) {
    return new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: 'The container with the files ended before it answered.',
      hint: 'Try again. The container is started again.',
    });
  }
  return new AmbitError('FILE_FAILED', {
    what: 'The container with the files ended before it answered. The operation may or may not have been done.',
    hint: 'Check the current state with session_file_info or session_read_file before you repeat it.',
  });
}

function createWeightLimit({
  maxCount,
  maxWeight,
}: {
  readonly maxCount: number;
  readonly maxWeight: number;
}): WeightLimit {
  const queue: { readonly weight: number; readonly go: () => void }[] = [];
  let activeCount = 0;
  let activeWeight = 0;

  /** A call that is too heavy runs alone. */
  const canStart = (weight: number) =>
    activeCount === 0 || (activeCount < maxCount && activeWeight + weight <= maxWeight);

  function startNext(): void {
    for (let [next] = queue; next !== undefined && canStart(next.weight); [next] = queue) {
      queue.shift();
      activeCount++;
      activeWeight += next.weight;
      next.go();
    }
  }

  return {
    async acquire(weight) {
      await new Promise<void>((go) => {
        queue.push({ weight, go });
        startNext();
      });
      return () => {
        activeCount--;
        activeWeight -= weight;
        startNext();
      };
    },
  };
}
