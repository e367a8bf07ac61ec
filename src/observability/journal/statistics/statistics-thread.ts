import { Worker } from 'node:worker_threads';
import { statisticsProgram } from '../../../package-paths.ts';
import { chooseSteps, composeStatistics, type Statistics, type StatisticsQuery } from './statistics.ts';
import type { StatisticsReply, StatisticsRequest } from './statistics-worker.ts';

/** The thread that reads the journal for statistics. It is started on first use, and ends when it is idle. */
export interface StatisticsThread {
  /** Reads until the signal is aborted. What was not read until then is not counted. */
  read(query: StatisticsQuery, signal?: AbortSignal): Promise<Statistics>;
  close(): Promise<void>;
}

interface PendingRead {
  readonly resolve: (result: Statistics) => void;
  readonly reject: (error: Error) => void;
}

const idleMs = 300_000;
const maxHeapMb = 512;

export function createStatisticsThread(file: string): StatisticsThread {
  const pending = new Map<number, PendingRead>();
  let worker: Worker | undefined;
  let idleTimer: NodeJS.Timeout | undefined;
  let count = 0;

  function start(): Worker {
    const started = new Worker(statisticsProgram, {
      workerData: file,
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    });
    started.unref();
    started.on('message', settle);
    started.on('error', ({ message }) => void stop(started, message));
    started.on('exit', () => void stop(started, 'The thread that counts the journal has ended.'));
    return started;
  }

  function settle({ number, result, error }: StatisticsReply): void {
    const asked = pending.get(number);
    if (asked === undefined) return;
    pending.delete(number);
    if (pending.size === 0) endWhenIdle();
    if (result !== undefined) asked.resolve(result);
    else asked.reject(new Error(error ?? 'no result'));
  }

  /** Ends the thread. It only reads files and replaces summaries, so it can end at any time. */
  async function stop(which: Worker, why: string): Promise<void> {
    if (worker !== which) return;
    worker = undefined;
    clearTimeout(idleTimer);
    for (const { reject } of pending.values()) reject(new Error(why));
    pending.clear();
    await which.terminate();
  }

  function endWhenIdle(): void {
    clearTimeout(idleTimer);
    idleTimer = setTimeout(() => {
      if (pending.size === 0 && worker !== undefined) void stop(worker, 'The thread was idle.');
    }, idleMs).unref();
  }

  return {
    read(query, signal) {
      if (signal?.aborted === true) return Promise.resolve(composeStatistics([], chooseSteps(query), false));
      worker ??= start();
      const running = worker;
      const number = ++count;
      const cancel = () => running.postMessage({ number } satisfies StatisticsRequest);
      signal?.addEventListener('abort', cancel, { once: true });
      const answered = new Promise<Statistics>((resolve, reject) => {
        pending.set(number, { resolve, reject });
        running.postMessage({ number, query } satisfies StatisticsRequest);
      });
      return answered.finally(() => signal?.removeEventListener('abort', cancel));
    },
    async close() {
      if (worker !== undefined) await stop(worker, 'The journal is closed.');
    },
  };
}
