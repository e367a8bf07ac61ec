import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionQuery } from '../../../src/sessions/search/session-index.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionRecord } from '../../../src/stores/record.ts';
import { openRedisStore } from '../../../src/stores/redis/redis-store.ts';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore, StoreOptions } from '../../../src/stores/store.ts';
import { counts } from '../../proof.ts';
import { findRedis, type RedisServer, startRedis } from '../../stores/redis-server.ts';
import { createTestClock } from '../../stores/test-clock.ts';
import { openIndex } from './open-index.ts';

const program = findRedis();
let folder: string;
let server: RedisServer | undefined;
let opened = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-session-index-'));
  if (program !== undefined) server = await startRedis(program);
});
afterAll(async () => {
  await server?.remove();
  await rm(folder, { recursive: true, force: true });
});

const stores: readonly ((options: StoreOptions) => Promise<SessionStore>)[] = [
  async (options) => openMemoryStore(options),
  (options) => openSqliteStore({ file: join(folder, `${opened}.db`), ...options }),
  ...(program === undefined
    ? []
    : [(options: StoreOptions) => openRedisStore({ url: server?.url ?? '', name: `run-${opened}`, ...options })]),
];

const word = fc.constantFrom('rose', 'oak', 'Fern', 'moss', 'reed', 'plantRose', 'größe', '配置', 'oaks', 'planted');
const phrase = fc.array(word, { minLength: 1, maxLength: 5 }).map((words) => words.join(' '));

/** A step of a history. Sessions are chosen by number among those that were opened before. */
const step = fc.record({
  act: fc.constantFrom(
    ...['open', 'open', 'open', 'open', 'tool', 'tool', 'file', 'file', 'message', 'message', 'message'],
    ...['end', 'crash', 'change', 'save', 'wait'],
  ),
  which: fc.nat({ max: 30 }),
  place: fc.constantFrom('garden', 'garden', 'meadow', null),
  task: fc.option(phrase),
  note: phrase,
});
const query = fc.record({
  text: fc.oneof(phrase, fc.constant('')),
  workspaceId: fc.constantFrom('garden', 'garden', 'meadow', undefined),
  ended: fc.constantFrom(true, false, undefined, undefined),
  since: fc.option(fc.nat({ max: 100 }), { nil: undefined, freq: 1 }),
  until: fc.option(fc.nat({ max: 100 }), { nil: undefined, freq: 1 }),
  limit: fc.integer({ min: 1, max: 20 }),
});

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
type Query = typeof query extends fc.Arbitrary<infer Value> ? Value : never;

/** Lets two processes live through a history on a store, and answers queries to a third one. */
async function liveThrough(
  openStore: (options: StoreOptions) => Promise<SessionStore>,
  steps: readonly Step[],
  queries: readonly Query[],
  start: number,
): Promise<unknown[]> {
  let time = start;
  const advance = (ms: number): void => {
    time += ms;
  };
  const clock = { now: () => time, advance };
  const store = await openStore({ now: clock.now });
  let processes = [openIndex(store, clock), openIndex(store, clock)];
  const sessions: SessionRecord[] = [];
  for (const [number, each] of steps.entries()) {
    const { index, open } = processes[number % 2] as (typeof processes)[number];
    const session = sessions[each.which % Math.max(sessions.length, 1)];
    clock.advance(1000);
    if (each.act === 'open') {
      const parent = session !== undefined && (await store.get(session.id)) !== undefined ? session : undefined;
      const parentId = each.which % 3 === 0 ? null : (parent?.id ?? null);
      const name = each.which % 4 === 0 ? `${each.note.replaceAll(' ', '-')}-${number}` : null;
      const life = { ttlSeconds: 1 + each.which * 10 };
      const place = { workspaceId: each.place, parentId, name, task: each.task };
      sessions.push(await open({ id: `session-${number}`, ...place, metadata: { note: each.note }, ...life }));
    }
    if (session === undefined) continue;
    if (each.act === 'tool') index.noteTool(session, each.note.replaceAll(' ', '__'));
    if (each.act === 'file') index.noteFile(session, `src/${each.note.replaceAll(' ', '/')}.ts`);
    if (each.act === 'message') index.noteMessage(session, each.note);
    if (each.act === 'end' && (await store.end(session.id))) index.ended(session, 'ended');
    if (each.act === 'crash') await store.end(session.id, 'evicted');
    if (each.act === 'wait') clock.advance(10_000);
    if (each.act === 'change') {
      const record = await store.get(session.id);
      if (record !== undefined) await store.update(record.id, record.version, { metadata: { note: each.task ?? '' } });
    }
    if (each.act !== 'save') continue;
    for (const { index: saved } of processes) await saved.close();
    processes = [openIndex(store, clock), openIndex(store, clock)];
  }
  const answers: unknown[] = [];
  const asTime = (second: number | undefined) => (second === undefined ? undefined : start + second * 1000);
  const ask = async ({ find }: (typeof processes)[number]) => {
    for (const { since, until, ...each } of queries) {
      const seen: unknown[] = [];
      const asked: Partial<SessionQuery> = { ...each, since: asTime(since), until: asTime(until) };
      const isVisible: SessionQuery['isVisible'] = ({ id, rootId, permissions }) => {
        seen.push([id, rootId, permissions]);
        return id !== 'session-0';
      };
      answers.push(await find({ ...asked, isVisible }), seen.sort());
    }
  };
  await ask(processes[0] as (typeof processes)[number]);
  for (const { index } of processes) await index.close();
  await ask(openIndex(store, clock));
  await store.close();
  return answers;
}

test('P13: every store gives exactly the same results', async () => {
  const { now } = createTestClock();
  const histories = fc.array(step, { minLength: 60, maxLength: 100, size: 'max' });
  const questions = fc.array(query, { minLength: 8, maxLength: 8 });
  let found = 0;
  await fc.assert(
    fc.asyncProperty(histories, questions, async (steps, queries) => {
      opened++;
      const start = now();
      const [expected, ...others] = await Promise.all(
        stores.map((openStore) => liveThrough(openStore, steps, queries, start)),
      );
      found += JSON.stringify(expected).split('"why"').length - 1;
      for (const each of others) expect(each).toEqual(expected);
    }),
    { numRuns: counts(2, 100) },
  );

  expect(found).toBeGreaterThan(50);
});
