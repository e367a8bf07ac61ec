import { parentPort, workerData } from 'node:worker_threads';
import { createStatisticsReader } from './read-statistics.ts';
import type { Statistics, StatisticsQuery } from './statistics.ts';

export interface StatisticsRequest {
  readonly number: number;
  /** Left out if nobody waits for the answer to this number any more. */
  readonly query?: StatisticsQuery;
}

export interface StatisticsReply {
  readonly number: number;
  readonly result?: Statistics;
  readonly error?: string;
}

/** This program reads the journal in a thread of its own: counting a large journal takes seconds of a processor. */
const reader = createStatisticsReader(String(workerData));
const reads = new Map<number, AbortController>();

parentPort?.on('message', async ({ number, query }: StatisticsRequest) => {
  if (query === undefined) return reads.get(number)?.abort();
  const controller = new AbortController();
  reads.set(number, controller);
  const reply = await reader.read(query, controller.signal).then(
    (result): StatisticsReply => ({ number, result }),
    (error: unknown): StatisticsReply => ({ number, error: String((error as Error)?.message ?? error) }),
  );
  reads.delete(number);
  parentPort?.postMessage(reply);
});
