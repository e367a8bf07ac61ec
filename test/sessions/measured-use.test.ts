import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Grant, Grants } from '../../src/sessions/grants.ts';
import type { Session } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { counts } from '../proof.ts';
import { codeOf } from './code-of.ts';

const bounds = { ttlSeconds: 3600, maxLifetimeSeconds: 86_400, maxSessions: 100, maxPerUser: 100 };
const waitForTurn = () => new Promise((resolve) => setImmediate(resolve));

interface Process {
  readonly sessions: Sessions;
  /** From now on nothing reaches the store, and nobody is told. */
  kill(): void;
}

/** Two processes on one store whose time passes only when a test waits. */
async function openProcesses(quota: object) {
  let now = 1_000_000;
  const store = openMemoryStore({ now: () => now });
  const seen = new Set<Grants>();

  async function pass(ms: number): Promise<void> {
    now += ms;
    for (const grants of seen) grants.settle();
    await waitForTurn();
  }

  function start(): Process {
    let isAlive = true;
    const reach = new Proxy(store, {
      get(target, name: keyof SessionStore) {
        const member = target[name];
        if (typeof member !== 'function' || name === 'watch') return member;
        return (...args: never[]) =>
          isAlive ? (member as (...all: never[]) => unknown)(...args) : Promise.reject(new Error('killed'));
      },
    });
    const quotas = () => ({ session: quota });
    const sessions = createSessions({ store: reach, bounds, quotas, now: () => now, wait: pass });
    const kill = () => {
      isAlive = false;
    };
    return { sessions, kill };
  }

  const processes = [start(), start()] as [Process, Process];
  const { session } = await processes[0].sessions.create({ userId: 'ada', trustLevel: 'sandboxed' });
  const { id } = session;
  return {
    id,
    store,
    processes,
    pass,
    start,
    async begin(on: number): Promise<Grant> {
      const { sessions } = processes[on] as Process;
      const grant = (await sessions.acquire((await sessions.load(id)) as Session, true)) as Grant;
      seen.add(grant.owner);
      return grant;
    },
    async close() {
      for (const { sessions } of processes) await sessions.close();
      await store.close();
    },
  };
}

const at = { on: fc.nat(1) };
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('begin' as const), ...at, times: fc.constantFrom(1, 1, 5, 30) }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat(99) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 1500 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('ask' as const), ...at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restrict' as const), ...at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), ...at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('kill' as const), ...at }) },
);
const quota = fc.constantFrom(
  {},
  { concurrentCalls: 2 },
  { concurrentCalls: 64 },
  { totalCalls: 40 },
  { totalBytes: 1e9 },
);

test('L13: the use is exact in every process, and calls never become fewer', async () => {
  const run = fc.asyncProperty(quota, fc.array(step, { minLength: 10, maxLength: 60 }), async (limits, steps) => {
    const { id, processes, pass, start, begin, close } = await openProcesses(limits);
    let underWay: { readonly grant: Grant; readonly on: number }[] = [];
    let [made, ended, shown, ttlSeconds] = [0, 0, 0, 3600];
    /** The calls of a killed process that nobody has heard of. */
    let isExact = true;

    async function ask(on: number): Promise<void> {
      const use = await (processes[on] as Process).sessions.usage(id);
      expect(use?.calls).toBeGreaterThanOrEqual(shown);
      shown = use?.calls ?? 0;
      if (isExact) expect(use).toEqual({ calls: made, bytes: ended * 10, underWay: underWay.length });
    }

    const run: { [K in Step['kind']]: (step: Extract<Step, { kind: K }>) => Promise<void> } = {
      async begin({ on, times }) {
        for (let i = 0; i < times; i++) {
          const refused = await codeOf(async () => {
            underWay.push({ grant: await begin(on), on });
            made++;
          });
          if (refused !== 'ok') expect(refused).toBe('QUOTA_EXCEEDED');
          // Few calls are under way at a time, as with agents.
          if (underWay.length > 3) await run.end({ kind: 'end', which: i });
        }
      },
      async end({ which }) {
        const [one] = underWay.splice(which % Math.max(underWay.length, 1), 1);
        if (one === undefined) return;
        ended++;
        await one.grant.owner.release(one.grant, true, 10);
      },
      wait: ({ ms }) => pass(ms),
      ask: ({ on }) => ask(on),
      async restrict({ on }) {
        await (processes[on] as Process).sessions.restrict(id, { ttlSeconds: --ttlSeconds });
      },
      async restart({ on }) {
        while (underWay.some((each) => each.on === on))
          await run.end({ kind: 'end', which: underWay.findIndex((each) => each.on === on) });
        await processes[on]?.sessions.close();
        processes[on] = start();
      },
      async kill({ on }) {
        processes[on]?.kill();
        underWay = underWay.filter((each) => each.on !== on);
        isExact = false;
        processes[on] = start();
      },
    };
    for (const each of steps) await run[each.kind](each as never);
    for (const on of [0, 1]) await ask(on);
    if (!isExact) {
      // When the leases of a killed process have run out, its calls count as made, and none is under way.
      await pass(31_000);
      const use = await processes[0].sessions.usage(id);
      expect(use?.calls).toBeGreaterThanOrEqual(Math.max(made, shown));
      expect(use?.underWay).toBe(underWay.length);
    }
    await close();
  });
  await fc.assert(run, { numRuns: counts(60, 3000) });
});

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

test('L13: a call that another process took back, because its session had changed, stays counted', async () => {
  const { id, store, processes, close } = await openProcesses({});
  const admitted = await store.admit({ id, calls: 1, holdMs: 30_000 });
  const { sessions } = processes[0];
  await sessions.load(id);
  expect(await sessions.usage(id)).toEqual({ calls: 1, bytes: 0, underWay: 1 });
  await store.release(id, 'lease' in admitted ? (admitted.lease as string) : '', { unusedCalls: 1 });
  expect(await sessions.usage(id)).toEqual({ calls: 1, bytes: 0, underWay: 0 });
  await close();
});
