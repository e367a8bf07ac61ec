import { expect, test } from 'vitest';
import { createProcessSlots, type ProcessSlot } from '../../../src/upstreams/links/process-slots.ts';

interface Told {
  readonly server?: string;
  readonly session?: string;
  readonly user?: string;
  readonly shared?: boolean;
}

interface Process {
  readonly slot: ProcessSlot;
  /** What it does now. */
  state: 'busy' | 'awaited' | 'spare' | 'told to end';
}

/** Processes that leave when they are told to have left. */
function slotsOf(bounds: { maxPerSession: number; max: number }) {
  const slots = createProcessSlots(() => bounds);
  let clock = 0;
  async function start({ server = 'it', session = 's', user = 'u', shared = false }: Told = {}): Promise<Process> {
    const began = ++clock;
    const owner = shared ? server : `${server} ${session}`;
    const process: { state: Process['state'] } = { state: 'busy' };
    const slot = await slots.take({
      server,
      owner,
      isSharedByUsers: shared,
      sessionId: session,
      userId: user,
      idleSince: () => (process.state === 'busy' ? undefined : began),
      hasClients: () => process.state === 'awaited',
      end() {
        process.state = 'told to end';
      },
    });
    return Object.assign(process, { slot });
  }
  const many = (n: number, told?: Told) => Promise.all(Array.from({ length: n }, () => start(told)));
  return { start, many, size: slots.size };
}

const refused = (rule: string) => ({ code: 'OVERLOADED', rule, retryAfterMs: 1000 });
const perSession = refused('processes.maxPerSession');
const ofGateway = refused('processes.max');
const spared = (processes: readonly Process[]): string[] => processes.map(({ state }) => state);
/** Lets everything happen that can happen without anybody leaving. */
const settled = () => new Promise((accept) => setImmediate(accept));

test('S8: a server has so many processes in a session; those of others are counted apart', async () => {
  const { start, many } = slotsOf({ maxPerSession: 2, max: 100 });
  const [first] = await many(2);
  await expect(start()).rejects.toMatchObject(perSession);
  await many(2, { server: 'other' });
  await many(2, { session: 't' });
  first?.slot.release();
  first?.slot.release();
  await start();
  await expect(start()).rejects.toMatchObject(perSession);
});

test('S8: what is leaving is waited for, by one each; then idle ones go, without a client first', async () => {
  const { start, many, size } = slotsOf({ maxPerSession: 4, max: 100 });
  const [leaving, awaited, old, young] = (await many(4)) as [Process, Process, Process, Process];
  leaving.slot.markLeaving();
  [awaited.state, old.state, young.state] = ['awaited', 'spare', 'spare'];
  const order: string[] = [];
  const starts = ['a', 'b', 'c'].map(async (name) => {
    await start();
    order.push(name);
  });
  expect(spared([awaited, old, young])).toEqual(['awaited', 'told to end', 'told to end']);
  awaited.state = 'busy';
  await expect(start()).rejects.toMatchObject(perSession);
  awaited.state = 'awaited';
  await settled();
  expect([order, size()]).toEqual([[], 4]);
  young.slot.release();
  await settled();
  expect(order).toEqual(['c']);
  leaving.slot.release();
  old.slot.release();
  await Promise.all(starts);
  const last = start();
  expect([awaited.state, size()]).toEqual(['told to end', 4]);
  awaited.slot.release();
  await last;
});

test('S8: the whole gateway has so many, and one session a quarter of them, one user half', async () => {
  const { start, many } = slotsOf({ maxPerSession: 8, max: 32 });
  await many(7, { session: 'one' });
  await start({ session: 'one', server: 'second' });
  await expect(start({ session: 'one', server: 'third' })).rejects.toMatchObject(ofGateway);
  await many(8, { session: 'two' });
  await expect(start({ session: 'three' })).rejects.toMatchObject(ofGateway);
  await many(8, { session: 'four', user: 'v' });
  await many(8, { session: 'five', user: 'v' });
  await expect(start({ session: 'six', user: 'w' })).rejects.toMatchObject(ofGateway);
});

test('S8: a full gateway ends idle processes of whoever has more, and of nobody who has less', async () => {
  const { start, many } = slotsOf({ maxPerSession: 2, max: 4 });
  const rich = await many(2, { user: 'rich', session: 'r' });
  const few = [await start({ user: 'one', session: 'o' }), await start({ user: 'two', session: 't' })];
  for (const each of few) each.state = 'spare';
  await expect(start({ user: 'rich', session: 'r', server: 'more' })).rejects.toMatchObject(ofGateway);
  expect(spared(few)).toEqual(['spare', 'spare']);
  for (const each of few) each.state = 'busy';
  for (const each of rich) each.state = 'awaited';
  const next = start({ user: 'one', session: 'o', server: 'more' });
  expect(spared([...rich, ...few])).toEqual(['told to end', 'awaited', 'busy', 'busy']);
  rich[0]?.slot.release();
  await next;
});

test('S8: one user takes half of what a shared server may have', async () => {
  const { start, many } = slotsOf({ maxPerSession: 4, max: 100 });
  await start({ shared: true, session: 's' });
  await start({ shared: true, session: 't' });
  await expect(start({ shared: true, session: 'x' })).rejects.toMatchObject(perSession);
  const [used] = await many(2, { shared: true, user: 'v' });
  if (used !== undefined) used.state = 'awaited';
  await expect(start({ shared: true, user: 'w' })).rejects.toMatchObject(perSession);
});

test('S8: bounds that were changed hold for the next start, and idle processes make up for it', async () => {
  const bounds = { maxPerSession: 3, max: 100 };
  const { start, many, size } = slotsOf(bounds);
  const before = await many(3);
  bounds.maxPerSession = 1;
  await expect(start()).rejects.toMatchObject(perSession);
  expect(spared(before)).toEqual(['busy', 'busy', 'busy']);
  for (const each of before) each.state = 'spare';
  const next = start();
  expect(spared(before)).toEqual(['told to end', 'told to end', 'told to end']);
  for (const { slot } of before) slot.release();
  await next;
  expect(size()).toBe(1);
  bounds.maxPerSession = 2;
  await start();
});
