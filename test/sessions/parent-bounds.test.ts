import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import type { Config } from '../../src/config/schema/schema.ts';
import { isTrustAtMost } from '../../src/rules/trust-level.ts';
import { openSession } from '../../src/sessions/open-session.ts';
import { boundDraft, restrictionForChild } from '../../src/sessions/parent-bounds.ts';
import { restrictSession } from '../../src/sessions/restrict.ts';
import type { Session, SessionDraft } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { NewSession } from '../../src/stores/record.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { counts } from '../proof.ts';
import { codeOf } from './code-of.ts';

let config: Config;
let store: SessionStore;
let sessions: Sessions;

beforeEach(async () => {
  const servers = 'servers: { a: { command: x }, b: { command: x }, c: { command: x } }';
  const workspaces = 'workspaces: { here: { path: /srv/here }, there: { path: /srv/there } }';
  const limits = 'sessions: { defaultTrust: direct, maxPerUser: 1000 }';
  const text = `version: 1\n${limits}\n${servers}\n${workspaces}`;
  ({ config } = await loadConfig({ text, file: '/etc/ambit/ambit.yaml' }));
  store = openMemoryStore();
  sessions = createSessions({ store, bounds: config.sessions });
});

const open = async (draft: SessionDraft) => (await openSession(sessions, config, draft)).session;
/** A second process on the same data. Each function of `between` runs just before the store does that operation. */
function createOtherProcess(between: {
  create?: (session: NewSession) => Promise<unknown>;
  end?: (id: string) => Promise<unknown>;
}): Sessions {
  const interrupted: SessionStore = {
    ...store,
    async create(session, caps) {
      await between.create?.(session);
      return store.create(session, caps);
    },
    async end(id, reason) {
      await between.end?.(id);
      return store.end(id, reason);
    },
  };
  return createSessions({ store: interrupted, bounds: config.sessions });
}

const loadNow = async (id: string) => (await sessions.load(id)) as Session;

test('L13: missing members of a draft are taken from the parent, except permissions', async () => {
  const narrow = { userId: 'ada', workspaceId: 'here', trustLevel: 'sandboxed', servers: ['a', 'b'] } as const;
  const parent = await open({ ...narrow, permissions: ['notes:read'] });
  expect(await open({ parentId: parent.id })).toMatchObject({ ...narrow, parentId: parent.id, permissions: [] });
});

test.each([
  [{ userId: 'bob' }, 'SESSION_NOT_FOUND'],
  [{ trustLevel: 'direct' }, 'TRUST_REQUIRED'],
  [{ workspaceId: 'there' }, 'REQUEST_INVALID'],
  [{ servers: ['a', 'c'] }, 'REQUEST_INVALID'],
  [{ permissions: ['notes:write'] }, 'REQUEST_INVALID'],
  [{ parentId: 'nobody-at-all' }, 'SESSION_NOT_FOUND'],
] as const)('L13: %j is beyond its parent, and refused', async (draft, code) => {
  const parent = await open({
    userId: 'ada',
    workspaceId: 'here',
    trustLevel: 'sandboxed',
    servers: ['a'],
    permissions: ['notes:read'],
  });
  expect(await codeOf(() => open({ parentId: parent.id, ...draft }))).toBe(code);
  expect((await sessions.list({ parentId: parent.id })).sessions).toEqual([]);
});

test('L13: no child lives longer than its parent, and all end with it', async () => {
  const parent = await open({});
  // As if it had been opened long ago.
  const old = await sessions.create({ userId: 'local', trustLevel: 'direct', lifetimeSeconds: 100 });
  const child = await open({ parentId: old.session.id });
  const grandchild = await open({ parentId: child.id });
  for (const each of [child, grandchild]) expect(each.endsAt).toBeLessThanOrEqual(old.session.endsAt);
  expect((await open({ parentId: parent.id })).endsAt).toBeLessThanOrEqual(parent.endsAt);
  await sessions.end(old.session.id);
  for (const { id } of [old.session, child, grandchild]) expect(await store.get(id)).toBeUndefined();
  expect(await store.get(parent.id)).toBeDefined();
});

test('L13: a restriction of a parent restricts its descendants too', async () => {
  const parent = await open({ permissions: ['p', 'q'] });
  const child = await open({ parentId: parent.id, permissions: ['p', 'q'], servers: ['a', 'b'] });
  const grandchild = await open({ parentId: child.id, permissions: ['q'] });
  const beside = await open({ permissions: ['p', 'q'] });
  await restrictSession(sessions, config, parent.id, {
    trustLevel: 'sandboxed',
    servers: ['b', 'c'],
    permissions: ['p'],
  });
  expect(await loadNow(child.id)).toMatchObject({ trustLevel: 'sandboxed', servers: ['b'], permissions: ['p'] });
  expect(await loadNow(grandchild.id)).toMatchObject({ trustLevel: 'sandboxed', servers: ['b'], permissions: [] });
  expect(await loadNow(beside.id)).toMatchObject({ version: beside.version, permissions: ['p', 'q'] });
});

test('L13: a child that is opened while its parent is restricted is no wider in the end', async () => {
  for (let round = 0; round < counts(20, 500); round++) {
    const parent = await open({ permissions: ['p'] });
    const [child] = await Promise.all([
      open({ parentId: parent.id, permissions: ['p'] }).catch(() => undefined),
      restrictSession(sessions, config, parent.id, { trustLevel: 'sandboxed', permissions: [] }),
    ]);
    if (child !== undefined) {
      expect(await loadNow(child.id)).toMatchObject({ trustLevel: 'sandboxed', permissions: [] });
    }
    await sessions.end(parent.id);
  }
});

test('L13: a child does not survive when its parent ends after the check and before the child is written', async () => {
  const parent = await open({ userId: 'ada' });
  const other = createOtherProcess({ create: () => sessions.end(parent.id) });
  const opened: string[] = [];
  other.onOpened(({ id }) => opened.push(id));
  expect(await codeOf(() => openSession(other, config, { parentId: parent.id }))).toBe('SESSION_NOT_FOUND');
  expect((await store.list()).sessions).toEqual([]);
  expect(opened).toEqual([]);
  await other.close();
});

test('L13: a child that is opened while its parent is being ended ends with the parent', async () => {
  const parent = await open({ userId: 'ada' });
  let child: Session | undefined;
  const other = createOtherProcess({
    async end(id) {
      if (id === parent.id) child = await open({ parentId: parent.id });
    },
  });
  expect(await other.end(parent.id)).toBe(true);
  expect(child).toBeDefined();
  expect((await store.list()).sessions).toEqual([]);
  await other.close();
});

test('L13: a child is narrowed when its parent was narrowed after the check and before the child was written', async () => {
  const parent = await open({ permissions: ['p'], servers: ['a', 'b'] });
  const narrowing = { trustLevel: 'sandboxed', servers: ['a'], permissions: [] } as const;
  const other = createOtherProcess({ create: () => restrictSession(sessions, config, parent.id, narrowing) });
  const { session, record } = await openSession(other, config, { parentId: parent.id, permissions: ['p'] });
  expect(session).toMatchObject(narrowing);
  expect(record).toMatchObject(narrowing);
  expect(await store.get(session.id)).toMatchObject(narrowing);
  await other.close();
});

test('L13: a child is written within the bounds of its parent, not written wider and narrowed afterwards', async () => {
  const parent = await open({ userId: 'ada', workspaceId: 'here', trustLevel: 'sandboxed', servers: ['a', 'b'] });
  const written: NewSession[] = [];
  const other = createOtherProcess({ create: async (session) => written.push(session) });
  await openSession(other, config, { parentId: parent.id });
  expect(written).toMatchObject([
    { userId: 'ada', workspaceId: 'here', trustLevel: 'sandboxed', servers: ['a', 'b'], permissions: [] },
  ]);
  await other.close();
});

test('L13: a child without a server list gets the list of its parent, when opened and when the parent is narrowed', async () => {
  const free = await open({ userId: 'ada' });
  const child = await open({ parentId: free.id });
  expect(child.servers).toBeUndefined();
  const limited = { ...free, servers: ['a'] };
  expect(boundDraft(limited, {})).toMatchObject({ servers: ['a'] });
  expect(restrictionForChild(limited, child)).toEqual({ servers: ['a'] });
  expect(restrictionForChild({ ...free, servers: [] }, child)).toEqual({ servers: [] });
  await restrictSession(sessions, config, free.id, { servers: ['a'] });
  expect((await loadNow(child.id)).servers).toEqual(['a']);
});

test('L13: a session of another user is never a child: it cannot name the parent, and does not end with it', async () => {
  const parent = await open({ userId: 'ada' });
  const draft = { userId: 'eve', trustLevel: 'sandboxed', parentId: parent.id } as const;
  expect(await codeOf(() => sessions.create(draft))).toBe('SESSION_NOT_FOUND');
  const eves = await open({ userId: 'eve' });
  // The store itself does not check parents.
  const forged = { ...(await store.get(eves.id)), id: 'forged-child', parentId: parent.id, lifetimeSeconds: 60 };
  expect(await store.create(forged as unknown as NewSession)).toMatchObject({ outcome: 'created' });
  await sessions.end(parent.id);
  expect(await store.get('forged-child')).toMatchObject({ userId: 'eve' });
});

test('L13: whatever is asked for and taken away, a child is never wider than its parent', async () => {
  const some = (names: string[]) => fc.option(fc.subarray(names), { nil: undefined });
  const bounds = fc.record({
    trustLevel: fc.option(fc.constantFrom('direct' as const, 'sandboxed' as const), { nil: undefined }),
    servers: some(['a', 'b', 'c']),
    permissions: some(['p', 'q', 'r']),
  });
  const given = (draft: object) =>
    Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined)) as SessionDraft;
  await fc.assert(
    fc.asyncProperty(bounds, bounds, bounds, async (ofParent, ofChild, taken) => {
      const parent = await open(given(ofParent));
      const child = await open({ parentId: parent.id, ...given(ofChild) }).catch(() => undefined);
      await restrictSession(sessions, config, parent.id, given(taken)).catch(() => undefined);
      if (child !== undefined) {
        const [above, below] = [await loadNow(parent.id), await loadNow(child.id)];
        expect(isTrustAtMost(below.trustLevel, above.trustLevel)).toBe(true);
        expect(below.permissions.every((name) => above.permissions.includes(name))).toBe(true);
        const { servers } = above;
        if (servers !== undefined) expect(below.servers?.every((name) => servers.includes(name))).toBe(true);
      }
      await sessions.end(parent.id);
    }),
    { numRuns: counts(100, 3000) },
  );
});
