import { setTimeout as delay } from 'node:timers/promises';
import { modernHeaders, modernRequest, post } from '../json-mcp-client.ts';
import type { RunningAmbit } from '../start-ambit.ts';

/** The durations and failures of calls. */
export interface CallStatistics {
  readonly calls: number;
  readonly p50: number;
  readonly p99: number;
  readonly failures: readonly string[];
}

export interface WorkingSessions {
  /** The calls that end within this time. */
  measure(ms: number): Promise<CallStatistics>;
  stop(): Promise<void>;
}

const body = JSON.stringify(modernRequest(1, 'tools/call', { name: 'echo', arguments: { text: 'at work' } }));
const pauseMs = 50;

/** So many sessions, each with its own token, connection and server, that call one tool after the other. */
export async function startWorkingSessions(ambit: RunningAmbit, sessions: number): Promise<WorkingSessions> {
  let times: number[] = [];
  let failures: string[] = [];
  let over = false;

  async function call(token: string): Promise<void> {
    const { text } = await post(ambit.mcp('calm'), token, body, modernHeaders('tools/call', 'echo'));
    if (!text.includes('at work')) throw new Error(text);
  }

  async function work(token: string): Promise<void> {
    while (!over) {
      const started = performance.now();
      await call(token).catch((error: unknown) => failures.push(String(error)));
      times.push(performance.now() - started);
      await delay(pauseMs * 2 * Math.random());
    }
  }

  const tokens: string[] = [];
  for (let index = 0; index < sessions; index++) tokens.push((await ambit.session()).token);
  // The servers start with the first call of each.
  for (const token of tokens) await call(token);
  const working = tokens.map(work);
  return {
    async measure(ms) {
      [times, failures] = [[], []];
      await delay(ms);
      const sorted = times.toSorted((one, other) => one - other);
      const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Infinity;
      return { calls: sorted.length, p50: at(0.5), p99: at(0.99), failures };
    },
    async stop() {
      over = true;
      await Promise.all(working);
    },
  };
}
