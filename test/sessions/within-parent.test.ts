import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { openSession } from '../../src/sessions/open-session.ts';
import { restrictSession } from '../../src/sessions/restrict-session.ts';
import type { Session, SessionDraft } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { isAtMost } from '../../src/trust/bounds.ts';
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
const now = async (id: string) => (await sessions.load(id)) as Session;

test('L13: what is not asked for is the parent’s, but for permissions', async () => {
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

test('L13: none lives longer than its parent can, and all end with it', async () => {
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

test('L13: whatever is taken from a parent is taken from those below it too', async () => {
  const parent = await open({ permissions: ['p', 'q'] });
  const child = await open({ parentId: parent.id, permissions: ['p', 'q'], servers: ['a', 'b'] });
  const grandchild = await open({ parentId: child.id, permissions: ['q'] });
  const beside = await open({ permissions: ['p', 'q'] });
  await restrictSession(sessions, config, parent.id, {
    trustLevel: 'sandboxed',
    servers: ['b', 'c'],
    permissions: ['p'],
  });
  expect(await now(child.id)).toMatchObject({ trustLevel: 'sandboxed', servers: ['b'], permissions: ['p'] });
  expect(await now(grandchild.id)).toMatchObject({ trustLevel: 'sandboxed', servers: ['b'], permissions: [] });
  expect(await now(beside.id)).toMatchObject({ version: beside.version, permissions: ['p', 'q'] });
});

test('L13: one that is opened while its parent is made narrower is no wider in the end', async () => {
  for (let round = 0; round < counts(20, 500); round++) {
    const parent = await open({ permissions: ['p'] });
    const [child] = await Promise.all([
      open({ parentId: parent.id, permissions: ['p'] }).catch(() => undefined),
      restrictSession(sessions, config, parent.id, { trustLevel: 'sandboxed', permissions: [] }),
    ]);
    if (child !== undefined) {
      expect(await now(child.id)).toMatchObject({ trustLevel: 'sandboxed', permissions: [] });
    }
    await sessions.end(parent.id);
  }
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
        const [above, below] = [await now(parent.id), await now(child.id)];
        expect(isAtMost(below.trustLevel, above.trustLevel)).toBe(true);
        expect(below.permissions.every((name) => above.permissions.includes(name))).toBe(true);
        const { servers } = above;
        if (servers !== undefined) expect(below.servers?.every((name) => servers.includes(name))).toBe(true);
      }
      await sessions.end(parent.id);
    }),
    { numRuns: counts(100, 3000) },
  );
});
