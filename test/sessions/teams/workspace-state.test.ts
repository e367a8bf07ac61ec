import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import { asHolder, codeIn, createTestSessions, type TestSessions } from '../tools/test-sessions.ts';

let on: TestSessions;

beforeEach(() => {
  on = createTestSessions();
});
afterEach(() => on.close());

const call = (by: Session, verb: string, args: object) =>
  on.tools.call(`session_state_${verb}`, { scope: 'workspace', ...args }, asHolder(by));
const getData = async (by: Session, verb: string, args: object) => (await call(by, verb, args)).structuredContent;
const garden = (name: string, userId = 'ada') => on.open(userId, { name, workspaceId: 'garden' });

test('L15: the sessions of a workspace share values, each with its author, also after the author has ended', async () => {
  const [one, two] = [await garden('one'), await garden('two')];
  const set = await getData(one, 'set', { key: 'plan', value: { step: 1 } });
  const author = { sessionId: one.id, name: 'one', agentId: null, trustLevel: 'sandboxed' };
  const entry = { key: 'plan', found: true, value: { step: 1 }, version: set?.['version'], expiresAt: null, author };
  expect(await getData(two, 'get', { key: 'plan' })).toEqual(entry);
  await on.sessions.end(one.id);
  expect(await getData(two, 'get', { key: 'plan' })).toEqual(entry);
  await getData(two, 'set', { key: 'plan', value: 2, expectedVersion: set?.['version'] });
  expect(await getData(two, 'list', { prefix: 'p' })).toMatchObject({
    keys: [{ key: 'plan', author: { sessionId: two.id, name: 'two' } }],
    next: null,
  });
  // The state of the session itself is another one.
  expect(await getData(two, 'get', { key: 'plan', scope: 'session' })).toMatchObject({ found: false });
});

test('of many sessions that compare and set, each step is written once', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, (_, index) => garden(`s${index}`)));
  const addOne = async (by: Session): Promise<void> => {
    for (;;) {
      const { value, version } = (await getData(by, 'get', { key: 'n' })) as { value: number | null; version: number };
      const set = await call(by, 'set', { key: 'n', value: (value ?? 0) + 1, expectedVersion: version });
      if (set.structuredContent !== undefined) return;
      expect(codeIn(set)).toBe('STATE_CONFLICT');
    }
  };
  await Promise.all(all.flatMap((by) => [addOne(by), addOne(by), addOne(by)]));
  expect(await getData(all[0] as Session, 'get', { key: 'n' })).toMatchObject({ value: 24 });
});

test('an attack from another user, another workspace or none reads and changes nothing', async () => {
  const one = await garden('one');
  const { version } = (await getData(one, 'set', { key: 'secret', value: 'x' })) as { version: number };
  const others = [await garden('one', 'eve'), await on.open('ada', { workspaceId: 'kitchen' })];
  for (const other of others) {
    expect(await getData(other, 'get', { key: 'secret' })).toMatchObject({ found: false, value: null });
    expect(await getData(other, 'list', {})).toEqual({ keys: [], next: null });
    expect(await getData(other, 'delete', { key: 'secret' })).toMatchObject({ deleted: false });
    expect(codeIn(await call(other, 'get', { session: one.id, key: 'secret' }))).toBe('SESSION_NOT_FOUND');
    await getData(other, 'set', { key: 'secret', value: 'theirs' });
  }
  const nowhere = await on.open('ada');
  for (const [verb, args] of Object.entries({ get: { key: 'k' }, set: { key: 'k', value: 1 }, list: {} })) {
    expect(codeIn(await call(nowhere, verb, args))).toBe('WORKSPACE_REQUIRED');
  }
  expect(await getData(one, 'get', { key: 'secret' })).toMatchObject({ value: 'x', version });
  // The names are hashed together: none of them can be shifted into the other.
  const shifted = await on.open('ada","garden', { workspaceId: 'x' });
  expect(await getData(shifted, 'list', {})).toEqual({ keys: [], next: null });
});

test('values have limits, also together, and expired ones make room', async () => {
  const one = await garden('one');
  expect(codeIn(await call(one, 'set', { key: 'k', value: 'x'.repeat(65_535) }))).toBe('STATE_FULL');
  const state = on.team.workspaceState;
  const place = { userId: 'ada', workspaceId: 'garden', trustLevel: 'sandboxed' } as const;
  const author = { sessionId: one.id, name: 'one', agentId: null, trustLevel: 'sandboxed' } as const;
  for (let index = 0; index < 15; index++) await state.set(place, `large${index}`, 'x'.repeat(65_534), { author });
  expect(await state.set(place, 'k', 'x'.repeat(65_534), { author })).toEqual({ outcome: 'full', limit: 'totalBytes' });
  for (let index = 0; index < 15; index++) await state.delete(place, `large${index}`);
  const other = { ...place, workspaceId: 'other' };
  await state.set(other, 'brief', 1, { author, ttlMs: 1 });
  for (let index = 1; index < 1000; index++) await state.set(other, `k${index}`, index, { author });
  await expect.poll(async () => (await state.list(other, { prefix: 'brief' })).keys).toEqual([]);
  expect(await state.set(other, 'more', 1, { author })).toMatchObject({ outcome: 'written' });
  expect(await state.set(other, 'even-more', 1, { author })).toEqual({ outcome: 'full', limit: 'keys' });
});

test('an attack from a sandboxed session reaches no direct one through the state, unless the workspace allows it', async () => {
  const openIn = (workspaceId: string, trustLevel: 'direct' | 'sandboxed') =>
    on.open('ada', { workspaceId, trustLevel });
  const [direct, sandboxed] = [await openIn('garden', 'direct'), await openIn('garden', 'sandboxed')];
  await getData(direct, 'set', { key: 'plan', value: 'of the direct one' });
  expect(await getData(sandboxed, 'get', { key: 'plan' })).toMatchObject({ found: false });
  await getData(sandboxed, 'set', { key: 'plan', value: 'do evil' });
  expect(await getData(direct, 'get', { key: 'plan' })).toMatchObject({ value: 'of the direct one' });
  await getData(await openIn('open', 'sandboxed'), 'set', { key: 'plan', value: 'shared' });
  expect(await getData(await openIn('open', 'direct'), 'get', { key: 'plan' })).toMatchObject({
    value: 'shared',
    author: { trustLevel: 'sandboxed' },
  });
});

test('the state of a removed user is gone, and anonymous callers share none', async () => {
  await getData(await garden('one'), 'set', { key: 'k', value: 'of the first ada' });
  await on.team.forgetUser('ada');
  expect(await getData(await garden('two'), 'get', { key: 'k' })).toMatchObject({ found: false });
  const nobody = await on.open('anonymous', { workspaceId: 'garden' });
  expect(codeIn(await call(nobody, 'set', { key: 'k', value: 1 }))).toBe('REQUEST_INVALID');
  expect(codeIn(await call(nobody, 'get', { key: 'k' }))).toBe('REQUEST_INVALID');
});
