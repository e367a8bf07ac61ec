import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Grant, type Grants, StaleSessionError } from '../../src/sessions/grants.ts';
import type { Quotas } from '../../src/sessions/quotas.ts';
import type { Session } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { counts } from '../proof.ts';
import { codeOf } from './code-of.ts';

const bounds = { ttlSeconds: 3600, maxLifetimeSeconds: 86_400, maxSessions: 100, maxPerUser: 100 };
const users = ['ada', 'ada', 'bob'];

/** What happens: calls begin in one of two processes, end, time passes, a record changes. */
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('begin' as const), on: fc.nat(1), of: fc.nat(2) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(99) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 1500 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('narrow' as const), on: fc.nat(1), of: fc.nat(2) }) },
);
const limit = (...values: number[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
const limits = fc.record({
  totalCalls: limit(1, 3, 20, 130, 400),
  concurrentCalls: limit(1, 2, 5, 33, 64),
});
const quotas = fc.record({ session: limits, user: limits });

interface UnderWay {
  readonly grant: Grant;
  readonly of: number;
}

const waitForTurn = () => new Promise((resolve) => setImmediate(resolve));
const dropUndefined = (all: object) =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));

test('L11: whatever the schedule, no quota is exceeded, and in the end calls counted are calls made', async () => {
  const run = fc.asyncProperty(quotas, fc.array(step, { minLength: 20, maxLength: 120 }), async (asked, steps) => {
    let now = 1_000_000;
    const store = openMemoryStore({ now: () => now });
    const own: Quotas = { session: dropUndefined(asked.session), user: dropUndefined(asked.user) };
    const open = () => createSessions({ store, bounds, quotas: () => own, now: () => now });
    const processes: readonly Sessions[] = [open(), open()];
    const ids: string[] = [];
    for (const userId of users) {
      ids.push((await (processes[0] as Sessions).create({ userId, trustLevel: 'sandboxed' })).session.id);
    }
    const seen = new Set<Grants>();
    const underWay: UnderWay[] = [];
    const made = ids.map(() => 0);
    let ttlSeconds = 3600;

    async function begin(on: number, of: number): Promise<void> {
      const sessions = processes[on] as Sessions;
      const session = (await sessions.load(ids[of] as string)) as Session;
      const refused = await codeOf(async () => {
        const grant = (await sessions.acquire(session, true)) as Grant;
        seen.add(grant.owner);
        underWay.push({ grant, of });
        made[of] = (made[of] as number) + 1;
      });
      if (refused !== 'ok') expect(refused).toBe('QUOTA_EXCEEDED');
      check();
    }

    /** What a limit is about, counted by ourselves. */
    function check(): void {
      for (const [scope, groups] of [
        ['session', [[0], [1], [2]]],
        ['user', [[0, 1], [2]]],
      ] as const) {
        const { totalCalls = 1e9, concurrentCalls = 1e9 } = own[scope] ?? {};
        for (const group of groups as readonly (readonly number[])[]) {
          expect(group.reduce((sum, each) => sum + (made[each] as number), 0)).toBeLessThanOrEqual(totalCalls);
          expect(underWay.filter(({ of }) => group.includes(of)).length).toBeLessThanOrEqual(concurrentCalls);
        }
      }
    }

    function end(which: number): void {
      const [ended] = underWay.splice(which % Math.max(underWay.length, 1), 1);
      ended?.grant.owner.release(ended.grant, true, 10);
    }

    async function pass(ms: number): Promise<void> {
      now += ms;
      for (const grants of seen) grants.settle();
      await waitForTurn();
    }

    for (const each of steps) {
      if (each.kind === 'begin') await begin(each.on, each.of);
      else if (each.kind === 'end') end(each.which);
      else if (each.kind === 'wait') await pass(each.ms);
      else await processes[each.on]?.restrict(ids[each.of] as string, { ttlSeconds: --ttlSeconds });
    }
    while (underWay.length > 0) end(0);
    await pass(1000);
    for (const [index, id] of ids.entries()) {
      const calls = made[index] as number;
      expect(await store.usage(id)).toMatchObject({ calls, bytes: calls * 10, underWay: 0, leases: [] });
    }
    // What is left of a quota can still be had, to the last call; what the other process holds, within a second.
    const left = () => (own.user?.totalCalls ?? 0) - (made[0] as number) - (made[1] as number);
    if (own.user?.totalCalls !== undefined && own.session?.totalCalls === undefined) {
      for (let i = 0; i < 1000 && left() > 0; i++) {
        await begin(i % 2, i % 2);
        if (underWay.length === 0) await pass(1000);
        end(0);
      }
      expect(left()).toBe(0);
    }
    for (const each of processes) await each.close();
    await store.close();
  });
  await fc.assert(run, { numRuns: counts(60, 3000) });
});

test('a change that comes with every call does not keep the calls from being made', async () => {
  const store = openMemoryStore();
  const [one, two] = [createSessions({ store, bounds }), createSessions({ store, bounds })];
  const { session } = await one.create({ userId: 'ada', trustLevel: 'sandboxed' });
  let stale = 0;
  for (let i = 1; i <= 50; i++) {
    const [, entered] = await Promise.all([
      two.restrict(session.id, { ttlSeconds: 3600 - i }),
      (async () => one.acquire((await one.load(session.id)) as Session, true))().catch((error: unknown) => {
        if (!(error instanceof StaleSessionError)) throw error;
        stale++;
      }),
    ]);
    entered?.owner.release(entered, true, 0);
  }
  const grant = await one.acquire((await one.load(session.id)) as Session, true);
  grant.owner.release(grant, true, 0);
  await one.close();
  expect((await store.usage(session.id))?.calls).toBe(51 - stale);
  await two.close();
  await store.close();
});
