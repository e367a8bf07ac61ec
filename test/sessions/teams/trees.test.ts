import fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { Config } from '../../../src/config/schema/schema.ts';
import { isTrustAtMost } from '../../../src/rules/trust-level.ts';
import { holdCall } from '../../../src/sessions/held-call.ts';
import { openSession } from '../../../src/sessions/open-session.ts';
import { quotasFromConfig } from '../../../src/sessions/quotas.ts';
import { restrictSession } from '../../../src/sessions/restrict.ts';
import type { Session, SessionDraft } from '../../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../../src/sessions/sessions.ts';
import { openTeam } from '../../../src/sessions/teams/open-team.ts';
import type { Toolset } from '../../../src/sessions/tools/toolset.ts';
import type { Limits } from '../../../src/stores/admission.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionRecord } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { createOwnTools } from '../../../src/workspaces/tools/create-own-tools.ts';
import { counts } from '../../proof.ts';
import { codeOf } from '../code-of.ts';
import { asHolder, codeIn } from '../tools/test-sessions.ts';

let config: Config;
let store: SessionStore;
let sessions: Sessions;
let tools: Toolset;
let now: number;

async function start(quotas = ''): Promise<void> {
  const servers = 'servers: { a: { command: x }, b: { command: x }, c: { command: x } }';
  const workspaces = 'workspaces: { here: { path: /srv/here }, there: { path: /srv/there } }';
  const limits = 'sessions: { defaultTrust: direct, maxPerUser: 1000, children: { maxDepth: 3, maxChildren: 4 } }';
  const text = `version: 1\n${limits}\n${servers}\n${workspaces}\n${quotas}`;
  ({ config } = await loadConfig({ text, file: '/etc/ambit/ambit.yaml' }));
  // The lifetime of a child is what is left of its parent's by the clock of the machine.
  now = Date.now();
  store = openMemoryStore({ now: () => now });
  sessions = createSessions({ store, bounds: config.sessions, quotas: () => quotasFromConfig(config), now: () => now });
  tools = createOwnTools({
    sessions,
    store,
    teamwork: {
      team: openTeam({ store, sessions }),
      createChild: (draft) => openSession(sessions, config, draft),
    },
  });
}

beforeEach(() => start());

const open = async (draft: SessionDraft) => (await openSession(sessions, config, draft)).session;
const create = (by: Session, args: object) => tools.call('session_create', args, asHolder(by));

async function createChild(by: Session, args: object = {}): Promise<Session> {
  const { structuredContent, content } = await create(by, args);
  const child = await sessions.load((structuredContent?.['id'] as string | undefined) ?? 'none');
  if (child === undefined) throw new Error(content[0].text);
  return child;
}

async function useSession(session: Session): Promise<void> {
  const grant = await sessions.acquire(session, true);
  await grant.owner.release(grant, true, 0);
}

/** Everything in which a child must not be wider than its parent. */
function expectWithin(child: SessionRecord, parent: SessionRecord): void {
  const { servers, quotas } = parent;
  expect(child.userId).toBe(parent.userId);
  expect(child.workspaceId).toBe(parent.workspaceId);
  expect(isTrustAtMost(child.trustLevel, parent.trustLevel)).toBe(true);
  expect(child.permissions.filter((name) => !parent.permissions.includes(name))).toEqual([]);
  if (servers !== null) expect(child.servers?.every((name) => servers.includes(name))).toBe(true);
  expect(child.ttlSeconds).toBeLessThanOrEqual(parent.ttlSeconds);
  expect(child.endsAt).toBeLessThanOrEqual(parent.endsAt);
  for (const [name, limit] of Object.entries(quotas ?? {})) {
    expect(child.quotas?.[name as keyof Limits], name).toBeLessThanOrEqual(limit as number);
  }
  if (parent.agentId !== null) expect(`${child.agentId}:`.startsWith(`${parent.agentId}:`)).toBe(true);
}

async function expectTreeWithinBounds(): Promise<void> {
  const all = new Map((await store.list({}, { limit: 1000 })).sessions.map((record) => [record.id, record]));
  const children = new Map<string, number>();
  for (const record of all.values()) {
    let depth = 0;
    for (let { parentId } = record; parentId !== null; parentId = all.get(parentId)?.parentId ?? null) depth++;
    expect(depth).toBeLessThanOrEqual(3);
    if (record.parentId === null) continue;
    if (!all.has(record.parentId)) {
      // A child whose parent has expired is ended by its next call, which is refused.
      const orphan = await sessions.load(record.id);
      if (orphan !== undefined) expect(await codeOf(() => useSession(orphan))).toMatch(/^SESSION_(?:ENDED|EXPIRED)$/);
      expect(await sessions.load(record.id)).toBe(undefined);
      continue;
    }
    expectWithin(record, all.get(record.parentId) as SessionRecord);
    children.set(record.parentId, (children.get(record.parentId) ?? 0) + 1);
  }
  for (const count of children.values()) expect(count).toBeLessThanOrEqual(4);
}

test('P13: no sequence of calls widens anything: random trees, random requests', async () => {
  const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined, freq: 2 });
  const limits = fc.record(
    { callsPerMinute: fc.integer({ min: 1, max: 9 }), totalCalls: fc.integer({ min: 1, max: 9 }) },
    { requiredKeys: [] },
  );
  const request = fc.record({
    trust: maybe(fc.constantFrom('direct', 'sandboxed')),
    ttlSeconds: maybe(fc.integer({ min: 1, max: 5000 })),
    servers: maybe(fc.subarray(['a', 'b', 'c'])),
    permissions: maybe(fc.subarray(['p', 'q', 'r'])),
    quotas: maybe(limits),
    agent: maybe(fc.constantFrom('lead', 'worker', 'lead:worker', 'other')),
  });
  const step = fc.oneof(
    fc.record({ kind: fc.constant('create' as const), by: fc.nat(), as: fc.nat(), request }),
    fc.record({ kind: fc.constant('restrict' as const), by: fc.nat(), request }),
    fc.record({ kind: fc.constant('end' as const), by: fc.nat() }),
    fc.record({ kind: fc.constant('wait' as const), seconds: fc.nat(600) }),
  );
  const given = (values: object) =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
  const root = fc.record({ inWorkspace: fc.boolean(), request, agentId: maybe(fc.constant('lead')) });
  await fc.assert(
    fc.asyncProperty(root, fc.array(step, { maxLength: 25 }), async (first, steps) => {
      await start();
      const { trust, agent: _, ...rest } = first.request;
      const draft = { ...rest, trustLevel: trust, agentId: first.agentId, userId: 'ada' };
      const ids = [(await open(given({ ...draft, workspaceId: first.inWorkspace ? 'here' : undefined }))).id];
      for (const each of steps) {
        if (each.kind === 'wait') {
          now += each.seconds * 1000;
          await store.sweep();
          continue;
        }
        const by = await sessions.load(ids[each.by % ids.length] as string);
        if (by === undefined) continue;
        if (each.kind === 'create') {
          // As the parent: the session of the call, or another one that it may or may not reach.
          const session = ids[each.as % ids.length] as string;
          const { structuredContent } = await create(by, { ...given(each.request), session });
          if (structuredContent !== undefined) ids.push(structuredContent['id'] as string);
        } else if (each.kind === 'restrict') {
          const { trust: trustLevel, ttlSeconds, servers, permissions } = each.request;
          await restrictSession(sessions, config, by.id, given({ trustLevel, ttlSeconds, servers, permissions })).catch(
            () => undefined,
          );
        } else await sessions.end(by.id);
        if (each.kind !== 'end' && (await store.list()).sessions.length > 1) await expectTreeWithinBounds();
      }
    }),
    { numRuns: counts(50, 5000) },
  );
});

test.each([
  [{ trust: 'direct' }, 'TRUST_REQUIRED'],
  [{ servers: ['a', 'b'] }, 'REQUEST_INVALID'],
  [{ permissions: ['q'] }, 'REQUEST_INVALID'],
  [{ ttlSeconds: 601 }, 'REQUEST_INVALID'],
  [{ quotas: { totalCalls: 11 } }, 'REQUEST_INVALID'],
  [{ quotas: { totalCalls: 0 } }, 'REQUEST_INVALID'],
  [{ workspace: 'there' }, 'REQUEST_INVALID'],
  [{ workspaceId: 'there' }, 'REQUEST_INVALID'],
  [{ userId: 'eve' }, 'REQUEST_INVALID'],
  [{ parentId: 'x' }, 'REQUEST_INVALID'],
  [{ session: 'f'.repeat(32) }, 'SESSION_NOT_FOUND'],
  [{ task: 'x'.repeat(4097) }, 'REQUEST_INVALID'],
  [{ task: 'half a pair \ud800' }, 'REQUEST_INVALID'],
  [{ agent: 'a b' }, 'REQUEST_INVALID'],
  [{ task: 'SESSIONCONTEXTAUTOINJECTED '.repeat(2) }, 'REQUEST_INVALID'],
  [{ name: 'SESSIONCONTEXTAUTOINJECTED' }, 'REQUEST_INVALID'],
  [{ resultSchema: { $ref: 'https://example.com/schema' } }, 'REQUEST_INVALID'],
])('an attack by a child beyond its parent is refused: %j', async (args, code) => {
  const parent = await open({
    userId: 'ada',
    workspaceId: 'here',
    trustLevel: 'sandboxed',
    servers: ['a'],
    permissions: ['p'],
    ttlSeconds: 600,
    quotas: { totalCalls: 10 },
  });
  expect(codeIn(await create(parent, args))).toBe(code);
  expect((await store.list()).sessions).toHaveLength(1);
});

test('a parent without a workspace cannot open a child in one, and neither can a stranger be the parent', async () => {
  const parent = await open({ userId: 'ada' });
  expect(await codeOf(() => open({ parentId: parent.id, workspaceId: 'here' }))).toBe('REQUEST_INVALID');
  const chosen = await openSession(
    sessions,
    config,
    { parentId: parent.id, workspaceId: 'here' },
    { mayChooseWorkspace: true },
  );
  expect(chosen.session.workspaceId).toBe('here');
  const other = await open({ userId: 'ada', name: 'other' });
  for (const session of [other.id, 'other']) {
    expect(codeIn(await create(parent, { session }))).toBe('SESSION_NOT_FOUND');
  }
});

test('depth and number of children are limited, and a child that ends makes room', async () => {
  const root = await open({ userId: 'ada' });
  let [last, depth] = [root, 0];
  for (; depth < 3; depth++) last = await createChild(last);
  const tooDeep = await create(last, {});
  expect(tooDeep._meta?.['ambit/error']).toMatchObject({ code: 'SESSION_LIMIT', rule: 'sessions.children.maxDepth' });
  const children = [];
  for (let index = 1; index < 4; index++) children.push(await createChild(root));
  const tooMany = await create(root, {});
  expect(tooMany._meta?.['ambit/error']).toMatchObject({
    code: 'SESSION_LIMIT',
    rule: 'sessions.children.maxChildren',
  });
  await sessions.end((children[0] as Session).id);
  await createChild(root);
});

test('a tree has the quota of its root, and the user counts each call once', async () => {
  await start(
    'quotas: { session: { totalCalls: 10, concurrentCalls: 2 }, user: { totalCalls: 12, concurrentCalls: 2 } }',
  );
  const root = await open({ userId: 'ada' });
  const [child, sibling] = [await createChild(root, { quotas: { totalCalls: 4 } }), await createChild(root)];
  const grandchild = await createChild(child);
  for (let index = 0; index < 4; index++) await useSession(index % 2 === 0 ? child : grandchild);
  expect(await codeOf(() => useSession(child))).toBe('QUOTA_EXCEEDED');
  expect(await codeOf(() => useSession(grandchild))).toBe('QUOTA_EXCEEDED');
  for (let index = 0; index < 6; index++) await useSession(index % 2 === 0 ? root : sibling);
  for (const each of [root, sibling, grandchild]) expect(await codeOf(() => useSession(each))).toBe('QUOTA_EXCEEDED');
  expect(await sessions.usage(root.id)).toMatchObject({ calls: 10, underWay: 0 });
  const another = await open({ userId: 'ada' });
  for (let index = 0; index < 2; index++) await useSession(another);
  expect(await codeOf(() => useSession(another))).toBe('QUOTA_EXCEEDED');
});

test('calls of children count among the concurrent calls of the root, and keep it alive', async () => {
  await start('quotas: { session: { concurrentCalls: 2 }, user: { concurrentCalls: 2 } }');
  const root = await open({ userId: 'ada', ttlSeconds: 100 });
  const [one, two] = [await createChild(root), await createChild(root)];
  const grants = [await sessions.acquire(one, true), await sessions.acquire(two, true)];
  expect(await codeOf(() => useSession(root))).toBe('QUOTA_EXCEEDED');
  for (const grant of grants) await grant.owner.release(grant, true, 0);
  await useSession(root);
  for (let waited = 0; waited < 5; waited++) {
    now += 60_000;
    await useSession(one);
  }
  expect(await store.get(root.id)).toBeDefined();
});

test.each([true, false])(
  'a child whose parent has expired is ended with its next request, counted: %s',
  async (counted) => {
    const root = await open({ userId: 'ada', ttlSeconds: 100 });
    const child = await createChild(root, { name: 'child' });
    const request = async (isCounted: boolean) => {
      const grant = await sessions.acquire(child, isCounted);
      await grant.owner.release(grant, isCounted, 0);
    };
    now += 60_000;
    // Lists do not count, so the parent stays idle.
    await request(false);
    now += 60_000;
    await store.sweep();
    expect(await store.get(root.id)).toBeUndefined();
    expect(await codeOf(() => request(counted))).toBe('SESSION_EXPIRED');
    expect(await store.get(child.id)).toBeUndefined();
  },
);

test('a call that an ancestor refuses takes nothing from the sessions below it', async () => {
  await start('quotas: { session: { concurrentCalls: 1 } }');
  const root = await open({ userId: 'ada' });
  const child = await createChild(root, { quotas: { totalCalls: 3 } });
  const held = await sessions.acquire(root, true);
  for (let index = 0; index < 10; index++) expect(await codeOf(() => useSession(child))).toBe('QUOTA_EXCEEDED');
  await held.owner.release(held, true, 0);
  for (let index = 0; index < 3; index++) await useSession(child);
  expect(await codeOf(() => useSession(child))).toBe('QUOTA_EXCEEDED');
});

test('a call that waits keeps its ancestors alive, and its bytes count for them', async () => {
  const root = await open({ userId: 'ada', ttlSeconds: 100 });
  const child = await createChild(root);
  const held = holdCall(sessions, child, await sessions.acquire(child, true), true);
  held.freePlace();
  await expect.poll(() => store.usage(root.id)).toMatchObject({ underWay: 0 });
  now += 20_000;
  await held.release(1234);
  await sessions.close();
  expect(await store.usage(root.id)).toMatchObject({ calls: 1, bytes: 1234, underWay: 0 });
  expect(await store.usage(child.id)).toMatchObject({ calls: 1, bytes: 1234, underWay: 0 });
});

test('all sessions of a tree are cleaned up after, also those that this process has not used', async () => {
  const root = await open({ userId: 'ada' });
  const child = await createChild(root);
  const ended: string[] = [];
  const other = createSessions({ store, bounds: config.sessions, now: () => now });
  other.onEnded(({ id }, reason) => reason === 'ended' && ended.push(id));
  await other.end(root.id);
  expect(ended.sort()).toEqual([root.id, child.id].sort());
  await other.close();
});

test('the agent of a child is named below that of its parent, so that no rule takes it for another', async () => {
  const root = await open({ userId: 'ada', agentId: 'lead' });
  const names = ['worker', 'lead:worker', 'lead', 'admin'];
  const children = [];
  for (const agent of names) children.push((await createChild(root, { agent })).agentId);
  expect(children).toEqual(['lead:worker', 'lead:worker', 'lead', 'lead:admin']);
  const plain = await open({ userId: 'ada' });
  expect((await createChild(plain, { agent: 'admin' })).agentId).toBe('child:admin');
});
