import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { connectRawClient, readRefusalCode } from '../../journeys/abandoned/raw-client.ts';
import { callModern } from '../../journeys/json-mcp-client.ts';
import { taggedProcesses } from '../../sandbox/tagged-processes.ts';
import { createKeyFor, findSession, trySession } from '../keyed-gateway.ts';
import { createSharedData, type ServedGateway } from '../shared-data.ts';
import { createPairs, erasOn, storeKinds, untilProcessesGone } from '../shared-stores.ts';

const program = join(import.meta.dirname, '../../journeys/abandoned/fixtures/upstream.js');
const servers = { it: { command: process.execPath, args: [program] } };
const data = createSharedData();
const patience = { timeout: 50_000 };
const config = { servers, sessions: { allowDirect: 'always' }, governance: { carrier: 'instructions' } } as const;
const openPair = createPairs(data);

const refused = async (served: ServedGateway, key: string) => {
  const said = await callModern(served.mcp('ambit'), key, 'session_info', { session: 'current' });
  return said.status === 401;
};

describe.each(storeKinds)('L12: a key that is revoked, on one %s store', (kind) => {
  test.each(erasOn(kind))('ends its sessions with all that is live of them elsewhere, in the %s era', async (era) => {
    const [here, there] = await openPair(kind, config);
    const { id, key } = await createKeyFor(here, `ada-${era}`);
    const other = await createKeyFor(here, `ada-${era}`);
    const visitor = await connectRawClient(era, { url: there.mcp('it'), token: key });
    await visitor.whoami();
    const call = visitor.call('hang');
    await call.begun;
    const lasting = await here.open({ userId: `ada-${era}` });
    expect(taggedProcesses(data.folder)).toHaveLength(1);
    const { sessions } = await here.gateway.people.keys.revoke(id);
    expect(sessions).toBe(1);
    expect(readRefusalCode(await call.answered)).toBe('SESSION_ENDED');
    await untilProcessesGone(data);
    await expect.poll(() => refused(there, key), patience).toBe(true);
    expect(await refused(here, key)).toBe(true);
    expect(await findSession(there, other.key)).toMatchObject({ userId: `ada-${era}` });
    expect(await here.gateway.sessions.record(lasting.id)).toBeDefined();
  });

  test('opens nothing more, whenever it was verified', async () => {
    const [here, there] = await openPair(kind, config);
    const user = `eve-${kind}`;
    const { id, key } = await createKeyFor(here, user);
    await findSession(there, key);
    // Many at once, some before and some after.
    const opening = Array.from({ length: 8 }, (_, at) => trySession(there, key, { 'openai/session': `c${at}` }));
    await here.gateway.people.keys.revoke(id);
    await Promise.all(opening);
    await expect.poll(() => refused(there, key), patience).toBe(true);
    const left = async () => (await here.gateway.sessions.list({ userId: user })).sessions.length;
    await expect.poll(left, patience).toBe(0);
  });
});

test('L12: a key that is revoked while a session is being opened with it gets no session', async () => {
  const store = openMemoryStore();
  let revoke: () => Promise<unknown> = async () => {};
  // The session is created after whoever revokes the key has looked for its sessions.
  const create: SessionStore['create'] = async (...given) => {
    await revoke();
    return store.create(...given);
  };
  const own = await data.serve({ servers }, { store: { ...store, create } });
  const { id, key } = await createKeyFor(own, 'ada');
  revoke = () => own.gateway.people.keys.revoke(id);
  expect(await refused(own, key)).toBe(true);
  expect((await own.gateway.sessions.list({ userId: 'ada' })).sessions).toEqual([]);
});

test('L12: a session ends where it is held, though whoever revoked the key was stopped before ending it', async () => {
  const [here, there] = await openPair('sqlite', config);
  const { id, key } = await createKeyFor(here, 'ada');
  const { id: sessionId } = await findSession(there, key);
  await here.gateway.directory.keys.revoke(id);
  await expect.poll(() => there.gateway.sessions.get(sessionId), patience).toBeUndefined();
  expect(await here.gateway.sessions.whyGone(sessionId)).toBe('revoked');
});

test('L12: removing a user revokes the keys and ends their sessions, and is written down', async () => {
  const own = await data.serve({ servers });
  const { id, key } = await createKeyFor(own, 'ada');
  const { id: sessionId } = await findSession(own, key);
  expect(await own.gateway.people.users.remove('ada')).toEqual({ keys: 1, sessions: 1 });
  expect(await refused(own, key)).toBe(true);
  // The same name again is another user.
  await own.gateway.people.users.add('ada');
  expect(await refused(own, key)).toBe(true);
  expect(await own.gateway.sessions.whyGone(sessionId)).toBe('revoked');
  await own.close();
  const events = data.journal().filter(({ kind }) => kind === 'gateway');
  expect(events.map(({ event }) => event)).toEqual([
    'opened',
    'user-added',
    'key-created',
    'key-revoked',
    'user-removed',
    'user-added',
    'closed',
  ]);
  expect(events[2]).toMatchObject({ userId: 'ada', keyId: id });
  expect(JSON.stringify(data.journal())).not.toContain(key.slice(-20));
});

test('the journal says which key a call came with, where several use one session', async () => {
  const own = await data.serve({ servers });
  const keys = [await createKeyFor(own, 'ada'), await createKeyFor(own, 'ada')];
  for (const { key } of keys) await findSession(own, key);
  await own.close();
  const calls = data.journal().filter(({ kind, method }) => kind === 'call' && method === 'tools/call');
  expect(new Set(calls.map(({ sessionId }) => sessionId)).size).toBe(1);
  expect(calls.map(({ userId, keyId }) => [userId, keyId])).toEqual(keys.map(({ id }) => ['ada', id]));
});

describe('a key that does not verify', () => {
  test('G3: is 401, or nobody where that is allowed, and then a warning is logged', async () => {
    const own = await data.serve({ servers });
    const { id, key } = await createKeyFor(own, 'ada');
    await own.gateway.people.keys.revoke(id);
    for (const wrong of [key, `${key}x`, `ambk_${'0'.repeat(32)}_${'0'.repeat(49)}`, 'nonsense']) {
      expect(await refused(own, wrong)).toBe(true);
    }
    await own.close();
    const lenient = await data.serve({ servers, auth: { anonymous: 'loopback', onInvalidKey: 'anonymous' } });
    for (const wrong of [key, `${key}x`, 'nonsense']) {
      expect(await findSession(lenient, wrong)).toMatchObject({ userId: 'anonymous', trustLevel: 'sandboxed' });
    }
    const warned = data.warnings().filter((event) => event.includes('treated as anonymous'));
    expect(warned).toHaveLength(1);
    expect(JSON.stringify(data.warnings())).not.toContain(key.slice(-20));
  });

  test.each([{ trustLevel: 'direct' as const }, { trustLevel: 'sandboxed' as const, permissions: ['notes:write'] }])(
    'is not served in a session of the anonymous user that was opened with %o',
    async (more) => {
      const own = await data.serve({ servers, auth: { anonymous: 'loopback', onInvalidKey: 'anonymous' } });
      await own.open({ userId: 'anonymous', name: 'default', ...more });
      expect(await trySession(own, 'nonsense')).toContain('SESSION_NOT_FOUND');
    },
  );
});
