import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openRedisStore } from '../../src/stores/redis/redis-store.ts';
import { openDatabase } from '../../src/stores/sqlite/driver.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { callModern, initializeRequest, openClient, post, readOutcome } from '../journeys/json-mcp-client.ts';
import { counts } from '../proof.ts';
import { findRedis, startRedis } from '../stores/redis-server.ts';
import { createSayingUpstream } from './echoing-upstream.ts';
import { createSharedData, type ServedGateway } from './shared-data.ts';

const data = createSharedData();
const upstream = createSayingUpstream();
const config = () => ({ servers: { it: { url: upstream().url } } });
const program = findRedis();
/** At least so long; in `npm test` until every session has been refused. */
const awayMs = counts(0, 5000);

async function readiness({ url }: ServedGateway): Promise<number> {
  return (await fetch(`${url}/readyz`)).status;
}

async function untilReady(own: ServedGateway, status: number): Promise<void> {
  while ((await readiness(own)) !== status) await delay(20);
}

/** Calls without a pause; each answer must be its own or an honest refusal. */
function load(own: ServedGateway, tokens: readonly string[]) {
  const outcomes = new Map<string, number>();
  const wrong: string[] = [];
  const made = tokens.map(() => 0);
  const refused = new Set<string>();
  let working = true;
  const lanes = [...tokens, ...tokens].map(async (token, lane) => {
    for (let number = 0; working; number++) {
      const words = `${lane}/${number}`;
      const said = readOutcome(await callModern(own.mcp('it'), token, 'say', { words }));
      const kind = said === words ? 'right' : said;
      if (said !== words && said !== '!STORE_UNAVAILABLE') wrong.push(`${words}: ${said}`);
      outcomes.set(kind, (outcomes.get(kind) ?? 0) + 1);
      if (kind === 'right') made[lane % tokens.length] = (made[lane % tokens.length] ?? 0) + 1;
      else {
        refused.add(token);
        await delay(20);
      }
    }
  });
  return {
    outcomes,
    wrong,
    made,
    async more(kind: string, count: number): Promise<void> {
      const goal = (outcomes.get(kind) ?? 0) + count;
      while ((outcomes.get(kind) ?? 0) < goal) await delay(5);
    },
    /** Each session may make some more calls without the store, and one may be behind the others. */
    async allRefused(): Promise<void> {
      while (refused.size < tokens.length) await delay(5);
    },
    async stop(): Promise<void> {
      working = false;
      await Promise.all(lanes);
    },
  };
}

describe.skipIf(program === undefined)('Redis', () => {
  test('L16: stopped for a while under load: no wrong answer, no lost session, recovery by itself', async () => {
    const redis = await startRedis(program as string, ['--appendonly', 'yes', '--appendfsync', 'always']);
    try {
      const store = await openRedisStore({ url: redis.url, patienceMs: 500 });
      const own = await data.serve(config(), { store });
      const sessions = await Promise.all(Array.from({ length: 6 }, () => own.open()));
      const client = await openClient(own.mcp('it'), (sessions[0] as { token: string }).token);
      const under = load(
        own,
        sessions.map(({ token }) => token),
      );
      await under.more('right', 60);
      expect(await readiness(own)).toBe(200);
      await redis.stop();
      const back = delay(awayMs);
      await under.more('!STORE_UNAVAILABLE', 20);
      await under.allRefused();
      expect(await readiness(own)).toBe(503);
      expect(readOutcome(await client.call('say', { words: 'x' }))).toBe('!STORE_UNAVAILABLE');
      const refused = await post(own.mcp('it'), sessions[1]?.token ?? '', JSON.stringify(initializeRequest()));
      expect(readOutcome(refused)).toBe('!STORE_UNAVAILABLE');
      await back;
      await redis.start();
      await untilReady(own, 200);
      await under.more('right', 60);
      await under.stop();
      expect(under.wrong).toEqual([]);
      expect(readOutcome(await client.call('say', { words: 'still here' }))).toBe('still here');
      for (const [index, { id }] of sessions.entries()) {
        expect(own.gateway.sessions.get(id)).toBeDefined();
        // What was granted and never used is counted at most; what was made, never less.
        const { calls } = (await own.gateway.usage(id)) ?? { calls: -1 };
        expect(calls).toBeGreaterThanOrEqual(under.made[index] ?? 0);
        expect(calls).toBeLessThanOrEqual((under.made[index] ?? 0) + 200);
      }
    } finally {
      await redis.remove();
    }
  });

  test('a session that ended while nobody could tell is ended when the store is back', async () => {
    const redis = await startRedis(program as string, ['--appendonly', 'yes', '--appendfsync', 'always']);
    try {
      const own = await data.serve(config(), { store: await openRedisStore({ url: redis.url, patienceMs: 300 }) });
      const { id, token } = await own.open();
      expect(readOutcome(await callModern(own.mcp('it'), token, 'say', { words: 'a' }))).toBe('a');
      const left = new Promise((resolve) => own.gateway.sessions.onEnded((_, reason) => resolve(reason)));
      await redis.stop();
      await redis.start();
      const other = await openRedisStore({ url: redis.url });
      await other.end(id);
      await other.close();
      expect(await left).toBe('ended');
      expect(readOutcome(await callModern(own.mcp('it'), token, 'say', { words: 'a' }))).toBe('!SESSION_ENDED');
    } finally {
      await redis.remove();
    }
  });
});

describe('the SQLite file', () => {
  test('locked under load: refusals and right answers only, and all goes on afterwards', async () => {
    const file = join(data.folder, 'locked.db');
    const own = await data.serve(config(), { store: await openSqliteStore({ file, patienceMs: 200 }) });
    const sessions = await Promise.all(Array.from({ length: 4 }, () => own.open()));
    const under = load(
      own,
      sessions.map(({ token }) => token),
    );
    await under.more('right', 50);
    const other = openDatabase(file);
    for (;;) {
      try {
        other.exec('BEGIN IMMEDIATE');
        break;
      } catch {
        await delay(1);
      }
    }
    await under.more('!STORE_UNAVAILABLE', 10);
    expect(await readiness(own)).toBe(503);
    other.exec('ROLLBACK');
    other.close();
    await untilReady(own, 200);
    await under.more('right', 50);
    await under.stop();
    expect(under.wrong).toEqual([]);
  });

  test('removed: its sessions are gone with all they had, and new ones can be opened', async () => {
    const own = await data.serve(config());
    const { id, token } = await own.open();
    expect(readOutcome(await callModern(own.mcp('it'), token, 'say', { words: 'a' }))).toBe('a');
    // Others, so that the new file cannot be taken for the old one.
    for (let i = 0; i < 3; i++) await own.open();
    const left = new Promise((resolve) =>
      own.gateway.sessions.onEnded((session) => session.id === id && resolve(true)),
    );
    for (const ending of ['', '-wal', '-shm']) rmSync(join(data.dataDir, `sessions.db${ending}`), { force: true });
    expect(await left).toBe(true);
    expect(readOutcome(await callModern(own.mcp('it'), token, 'say', { words: 'a' }))).toBe('!UNAUTHENTICATED');
    const next = await own.open();
    expect(readOutcome(await callModern(own.mcp('it'), next.token, 'say', { words: 'b' }))).toBe('b');
    expect(await readiness(own)).toBe(200);
  });
});
