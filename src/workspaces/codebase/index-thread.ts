import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { withTimeout } from '../../lib/async/timeout.ts';
import { indexProgram } from '../../package-paths.ts';
import { isInMemory } from './index-database.ts';
import type { EndRequest, IndexMethods, IndexReply, IndexRequest } from './index-worker.ts';

/** An index could not be used. `isFull`: it has reached its largest size. */
export class IndexError extends Error {
  readonly isFull: boolean;

  constructor(message: string, isFull = false) {
    super(message);
    this.name = 'IndexError';
    this.isFull = isFull;
  }
}

/** The thread that runs all indexes. It is started on first use, and ends when it is idle. */
export interface IndexThread {
  /** Changes with every start of the thread; undefined while it does not run. */
  readonly run: number | undefined;
  call<M extends keyof IndexMethods>(
    file: string,
    method: M,
    ...args: Parameters<IndexMethods[M]>
  ): Promise<Awaited<ReturnType<IndexMethods[M]>>>;
  close(): Promise<void>;
}

interface PendingCall {
  readonly resolve: (value: never) => void;
  readonly reject: (error: IndexError) => void;
  readonly timer: NodeJS.Timeout;
}

/** A call that takes longer never ends. */
const maxCallMs = 60_000;
const idleMs = 120_000;
/** The largest size of one index, in a file and in memory. */
const maxFileBytes = 512 * 1024 * 1024;
const maxMemoryBytes = 64 * 1024 * 1024;
const maxHeapMb = 512;

export function createIndexThread(): IndexThread {
  let worker: Worker | undefined;
  let idleTimer: NodeJS.Timeout | undefined;
  let count = 0;
  let starts = 0;
  const pending = new Map<number, PendingCall>();

  function start(): Worker {
    starts++;
    const started = new Worker(indexProgram, {
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    });
    started.unref();
    started.on('message', settle);
    started.on('error', ({ message }) => stop(started, message));
    started.on('exit', () => stop(started, 'The thread of the index has ended.'));
    return started;
  }

  function settle({ number, result, error }: IndexReply): void {
    const call = pending.get(number);
    if (call === undefined) return;
    pending.delete(number);
    clearTimeout(call.timer);
    if (pending.size === 0) endWhenIdle();
    if (error === undefined) call.resolve(result as never);
    else call.reject(new IndexError(error.message, error.isFull));
  }

  /**
   * Ends the thread. Indexes in memory are lost with it, and are built again. The thread finishes its call and ends by
   * itself: libsql aborts the whole process if its thread is terminated during a call.
   */
  function stop(which: Worker, why: string): void {
    if (worker !== which) return;
    worker = undefined;
    which.postMessage('end' satisfies EndRequest);
    for (const { reject, timer } of pending.values()) {
      clearTimeout(timer);
      reject(new IndexError(why));
    }
    pending.clear();
  }

  function endWhenIdle(): void {
    clearTimeout(idleTimer);
    idleTimer = setTimeout(() => {
      if (pending.size === 0 && worker !== undefined) stop(worker, 'The index was idle.');
    }, idleMs);
    idleTimer.unref();
  }

  return {
    get run() {
      return worker === undefined ? undefined : starts;
    },

    call(file, method, ...args) {
      worker ??= start();
      const running = worker;
      const number = ++count;
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => stop(running, 'The index did not answer.'), maxCallMs);
        timer.unref();
        pending.set(number, { resolve: resolve as (value: never) => void, reject, timer });
        const request: IndexRequest = {
          number,
          file,
          maxBytes: isInMemory(file) ? maxMemoryBytes : maxFileBytes,
          method,
          args,
        };
        running.postMessage(request);
      });
    },

    async close() {
      clearTimeout(idleTimer);
      const running = worker;
      if (running === undefined) return;
      const ended = once(running, 'exit');
      running.ref();
      stop(running, 'The index is closed.');
      await withTimeout(ended, maxCallMs).catch(() => running.terminate());
    },
  };
}
