import { parentPort, workerData } from 'node:worker_threads';
import { createStatisticsReader } from './read-statistics.ts';
import type { Statistics, StatisticsQuery } from './statistics.ts';

export interface StatisticsRequest {
  readonly number: number;
  readonly query: StatisticsQuery;
}

export interface StatisticsReply {
  readonly number: number;
  readonly result?: Statistics;
  readonly error?: string;
}

/** This program reads the journal in a thread of its own: counting a large journal takes seconds of a processor. */
const reader = createStatisticsReader(String(workerData));

parentPort?.on('message', async ({ number, query }: StatisticsRequest) => {
  const reply = await reader.read(query).then(
    (result): StatisticsReply => ({ number, result }),
    (error: unknown): StatisticsReply => ({ number, error: String((error as Error)?.message ?? error) }),
  );
  parentPort?.postMessage(reply);
});
