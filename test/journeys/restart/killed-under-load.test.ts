import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../../src/stores/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import { counts } from '../../proof.ts';
import { answerCorrectly, sendJson, startUpstream, type Upstream } from '../hostile/upstreams/start-http-upstream.ts';
import { callModern, readOutcome } from '../json-mcp-client.ts';

const program = join(import.meta.dirname, 'served-child.js');
const rounds = counts(2, 200);
const lanes = 4;
let dataDir: string;
let upstream: Upstream;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'ambit-killed-'));
  upstream = await startUpstream({
    say: ({ id, params }, response) => sendJson(response, answerCorrectly(id, String(params.arguments?.['words']))),
  });
});
afterAll(async () => {
  await upstream.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

interface Child {
  readonly process: ChildProcess;
  readonly url: string;
  ask<T>(what: string, given: Record<string, unknown>): Promise<T>;
}

interface Opened {
  readonly id: string;
  readonly token: string;
}

/** The writes of one session that were acknowledged. */
interface Known extends Opened {
  calls: number;
  /** Sent, whether or not we heard the answer. */
  sent: number;
  kept: number;
  kills: number;
}

async function start(): Promise<Child> {
  const config = {
    version: 1,
    servers: { it: { url: upstream.url } },
    sessions: { defaultTrust: 'direct', maxPerUser: 100_000 },
  };
  const child = spawn(process.execPath, [program, dataDir, JSON.stringify(config)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [ready] = (await once(child, 'message')) as [{ url: string }];
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let last = 0;
  child.on('message', ({ number, answer, error }: { number: number; answer?: unknown; error?: string }) => {
    const one = waiting.get(number);
    waiting.delete(number);
    if (error === undefined) one?.resolve(answer);
    else one?.reject(new Error(error));
  });
  child.on('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('killed'));
  });
  return {
    process: child,
    url: `${ready.url}/mcp/it`,
    ask: <T>(what: string, given: Record<string, unknown>) =>
      new Promise<T>((resolve, reject) => {
        const number = ++last;
        waiting.set(number, { resolve: resolve as (value: unknown) => void, reject });
        child.send({ number, what, ...given }, (error) => error && reject(error));
      }),
  };
}

/** Works until the child is gone: opens sessions, keeps state in them, calls. */
async function work(child: Child, lane: number, known: Known[], acknowledged: () => void): Promise<void> {
  for (let number = 0; ; number++) {
    if (number % 5 === 0) {
      const opened = await child.ask<Opened>('open', { userId: `lane-${lane}` });
      known.push({ ...opened, calls: 0, sent: 0, kept: 0, kills: 0 });
    }
    const own = known.at(-1 - (number % Math.min(known.length, 3))) as Known;
    const words = `${own.id} ${number}`;
    own.sent++;
    const said = readOutcome(await callModern(child.url, own.token, 'say', { words }));
    expect(said).toBe(words);
    own.calls++;
    const { outcome: written } = await child.ask<{ outcome: string }>('keep', { id: own.id, value: own.kept + 1 });
    expect(written).toBe('written');
    own.kept++;
    acknowledged();
  }
}

async function check(all: readonly Known[]): Promise<void> {
  const file = join(dataDir, 'sessions.db');
  const store = await openSqliteStore({ file });
  for (const { id, calls, sent, kept, kills } of all) {
    expect(await store.get(id)).toBeDefined();
    const count = ((await store.state.get(id, 'count'))?.value ?? 0) as number;
    expect([kept, kept + 1]).toContain(count);
    const use = await store.usage(id);
    // Nothing that was answered is missing; what was granted and never used is at most one grant for each kill.
    expect(use?.calls).toBeGreaterThanOrEqual(calls);
    expect(use?.calls).toBeLessThanOrEqual(sent + kills * 64);
  }
  await store.close();
  const database = openDatabase(file);
  expect(database.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' });
  database.close();
}

test(`L6: a gateway killed under load ${rounds} times loses nothing that it acknowledged, and the next one goes on`, async () => {
  const known: Known[][] = Array.from({ length: lanes }, () => []);
  let next = start();
  for (let round = 0; round < rounds; round++) {
    const child = await next;
    // Started ahead, on the same files: several processes may.
    next = round + 1 < rounds ? start() : next;
    let left = 3 + ((round * 37) % 40);
    const gone = once(child.process, 'exit');
    const working = known.map((own, lane) =>
      work(child, lane, own, () => {
        if (--left === 0) child.process.kill('SIGKILL');
      }),
    );
    const ends = await Promise.allSettled(working);
    await gone;
    for (const end of ends) {
      const words = end.status === 'rejected' ? String(end.reason) : 'it went on';
      expect(words).toMatch(/killed|ECONNRE|aborted|socket hang up|ERR_IPC|EPIPE|Channel closed/);
    }
    for (const each of known.flat()) each.kills++;
    if (round % 10 === 9 || round === rounds - 1) await check(known.flat());
  }
});
