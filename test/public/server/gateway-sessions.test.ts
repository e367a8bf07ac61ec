import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createServerSessions, type ServerSessionsOptions } from '../../../src/public/server/index.ts';
import { createSessions } from '../../../src/sessions/sessions.ts';
import { openMemoryStore, openSqliteStore } from '../../../src/stores/index.ts';
import { type ClaimOptions, createClaims, createMeta, createSigner } from '../sdk/signer.ts';
import { type Caller, connectHttp, connectPipe, createAuth, serveStateless } from './connect-client.ts';
import { openClockedStore } from './open-clocked-store.ts';

const signer = await createSigner();
const stranger = await createSigner();
const shared = { AMBIT_JWKS: JSON.stringify(signer.jwks) };

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}, env: Record<string, string> = shared) {
  const sessions = createServerSessions({ ...options, context: { env, ...options.context } });
  open.push(sessions);
  return sessions;
}

/** Calls as the gateway would send them: with a context that is signed for this very call. */
async function signedCall(
  caller: Caller,
  name: string,
  args: object = {},
  asked: ClaimOptions & { user?: string } = {},
) {
  const canonical = JSON.stringify(Object.fromEntries(Object.entries(args).sort(([a], [b]) => (a < b ? -1 : 1))));
  const claims = { ...createClaims({ name, canonical, ...asked }), ...(asked.user && { sub: asked.user }) };
  return caller.call(name, { ...args }, createMeta(await signer.sign(claims), claims));
}

async function pipe(given: ReturnType<typeof sessionsWith>, sdk: 'v1' | 'v2' = 'v2') {
  const caller = await connectPipe(sdk, given);
  open.push(caller);
  return caller;
}

describe.each(['v1', 'v2'] as const)('SDK %s, behind Ambit', (sdk) => {
  test('L3, L15: the context names the session; its state is kept here, for that session alone', async () => {
    const sessions = sessionsWith();
    const opened: string[] = [];
    sessions.onOpened(({ id, userId }) => opened.push(`${id} ${userId}`));
    const caller = await pipe(sessions, sdk);
    const { value } = await signedCall(caller, 'whoami', {}, { session: 'session-one' });
    expect(value).toMatchObject({
      status: 'verified',
      sessionId: 'session-one',
      userId: 'ada',
      agentId: 'coder',
      workspaceId: 'garden',
      trustLevel: 'direct',
      permissions: ['notes:write'],
      same: true,
    });
    await signedCall(caller, 'add', { item: 'of one' }, { session: 'session-one' });
    await signedCall(caller, 'add', { item: 'of two' }, { session: 'session-two' });
    expect((await signedCall(caller, 'items', {}, { session: 'session-one' })).value).toEqual(['of one']);
    expect((await signedCall(caller, 'items', {}, { session: 'session-two' })).value).toEqual(['of two']);
    expect(opened).toEqual(['session-one ada', 'session-two ada']);
    expect((await sessions.list()).map(({ id, name }) => [id, name])).toEqual([
      ['session-one', null],
      ['session-two', null],
    ]);
  });

  test('L3: sessions at the same time in one process never mix', async () => {
    const caller = await pipe(sessionsWith(), sdk);
    const calls = Array.from({ length: 40 }, (_, i) =>
      signedCall(caller, 'add', { item: `${i}`, pause: (i * 7) % 11 }, { session: `session-${i % 5}` }),
    );
    await Promise.all(calls);
    for (let of = 0; of < 5; of++) {
      const items = (await signedCall(caller, 'items', {}, { session: `session-${of}` })).value as string[];
      const meant = Array.from({ length: 8 }, (_, n) => `${n * 5 + of}`);
      expect(items.sort()).toEqual(meant.sort());
    }
  });
});

test('P12: a forged context reaches no session, not even the one of the environment', async () => {
  const sessions = sessionsWith({}, { ...shared, AMBIT_SESSION_ID: 'from-the-environment', AMBIT_USER_ID: 'ada' });
  const caller = await pipe(sessions);
  const claims = createClaims({ name: 'items' });
  for (const meta of [
    createMeta(await stranger.sign(claims), claims),
    createMeta('', claims),
    { 'ambit/context': { sessionId: 'from-the-environment', trustLevel: 'direct' } },
    { 'ambit/context': 'from-the-environment' },
  ]) {
    expect((await caller.call('items', {}, meta)).error).toMatchObject({ code: 'CONTEXT_REFUSED' });
  }
  expect(await sessions.list()).toEqual([]);
});

test('the same id of another user is another session', async () => {
  const caller = await pipe(sessionsWith());
  await signedCall(caller, 'add', { item: 'secret' }, { session: 'session-one' });
  expect((await signedCall(caller, 'items', {}, { session: 'session-one', user: 'eve' })).value).toEqual([]);
});

test('the bounds are those of the current call: a restricted session is restricted with its next call', async () => {
  const caller = await pipe(sessionsWith());
  const call = (asked: ClaimOptions) => signedCall(caller, 'delete_note', {}, { session: 'session-one', ...asked });
  expect((await call({})).value).toBe('deleted');
  expect((await call({ permissions: [] })).error).toMatchObject({ code: 'PERMISSION_DENIED' });
  expect((await call({ trust: 'sandboxed' })).error).toMatchObject({ code: 'TRUST_REQUIRED' });
});

test('L4: Ambit decides how long a session lives; the state kept here expires by itself', async () => {
  const { store, now, pass } = openClockedStore();
  const caller = await pipe(sessionsWith({ store, ttlSeconds: 60, context: { now } }));
  const call = (name: string, args = {}) => signedCall(caller, name, args, { session: 'session-one', now: now() });
  await call('add', { item: 'old' });
  pass(50);
  expect((await call('items')).value).toEqual(['old']);
  pass(61);
  expect((await call('items')).value).toEqual([]);
  await store.close();
});

test('L5: many sessions of one user evict only sessions of the same user', async () => {
  const caller = await pipe(sessionsWith({ maxSessions: 10, maxPerUser: 3 }));
  await signedCall(caller, 'add', { item: 'of eve' }, { session: 'of-eve-00', user: 'eve' });
  for (let i = 0; i < 20; i++) {
    expect((await signedCall(caller, 'add', { item: `${i}` }, { session: `session-${i}` })).isError).toBe(false);
  }
  expect((await signedCall(caller, 'items', {}, { session: 'session-19' })).value).toEqual(['19']);
  expect((await signedCall(caller, 'items', {}, { session: 'session-0' })).value).toEqual([]);
  expect((await signedCall(caller, 'items', {}, { session: 'of-eve-00', user: 'eve' })).value).toEqual(['of eve']);
});

test('a process that Ambit started for one session uses that session, also for calls without a context', async () => {
  const env = {
    ...shared,
    AMBIT_SESSION_ID: 'from-the-environment',
    AMBIT_TRUST_LEVEL: 'sandboxed',
    AMBIT_USER_ID: 'ada',
  };
  const sessions = sessionsWith({}, env);
  const caller = await pipe(sessions);
  await caller.call('add', { item: 'one' });
  const { value } = await caller.call('whoami');
  expect(value).toMatchObject({ status: 'inherited', sessionId: 'from-the-environment', trustLevel: 'sandboxed' });
  expect((value as { correlationId: string }).correlationId).toMatch(/^[0-9a-f-]{36}$/);
  expect((await signedCall(caller, 'items', {}, { session: 'from-the-environment' })).value).toEqual(['one']);
  expect(await sessions.end('from-the-environment')).toBe(true);
  expect((await caller.call('items')).value).toEqual([]);
});

test.each([
  ['shared', shared],
  ['user', { ...shared, AMBIT_USER_ID: 'ada', AMBIT_TRUST_LEVEL: 'direct' }],
])('a process of Ambit’s for several sessions (%s) never puts a call without context into one', async (_, env) => {
  const sessions = sessionsWith({}, env);
  const caller = await pipe(sessions);
  expect((await caller.call('whoami')).error).toMatchObject({ code: 'CONTEXT_REFUSED' });
  expect(await sessions.list()).toEqual([]);
});

test('over HTTP a signed context outranks the credential, and an invalid one is refused', async () => {
  const store = openMemoryStore();
  const sessions = sessionsWith({
    store,
    principal: (auth) => auth && { userId: String(auth.extra?.user) },
    context: { env: {}, keys: signer.jwks, audience: 'http://kept.test/mcp' },
  });
  const caller = await connectHttp(serveStateless(sessions), 'modern', createAuth('proxy'));
  open.push(caller);
  const aud = 'http://kept.test/mcp';
  expect((await signedCall(caller, 'whoami', {}, { aud, session: 'session-one' })).value).toMatchObject({
    status: 'verified',
    sessionId: 'session-one',
    userId: 'ada',
  });
  expect((await signedCall(caller, 'whoami', {}, { aud: 'http://other.test/mcp' })).error).toMatchObject({
    code: 'CONTEXT_REFUSED',
  });
  expect((await caller.call('whoami')).value).toMatchObject({ status: 'own', userId: 'proxy' });
  await signedCall(caller, 'whoami', {}, { aud, session: 'session-two', user: 'proxy' });
  const [kept] = (await store.list({ userId: 'proxy' })).sessions.filter(({ name }) => name === 'ambit:session-two');
  for (const id of [kept?.id, 'session-two']) {
    expect((await caller.call('whoami', {}, { 'ambit/use-session': id })).error).toMatchObject({
      code: 'SESSION_NOT_FOUND',
    });
  }
  await store.close();
});

test('where Ambit and the server use one store, the record is Ambit’s own, and its calls are counted once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-shared-'));
  const file = join(folder, 'sessions.db');
  const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 600, maxSessions: 10, maxPerUser: 10 };
  const ambits = await openSqliteStore({ file });
  const gateway = createSessions({ store: ambits, bounds });
  const { session } = await gateway.create({ userId: 'ada', trustLevel: 'direct' });
  const store = await openSqliteStore({ file });
  const caller = await pipe(sessionsWith({ store, quotas: { session: { totalCalls: 1 } } }));
  const call = (name: string, args = {}) => signedCall(caller, name, args, { session: session.id });
  await call('add', { item: 'one' });
  expect((await call('items')).value).toEqual(['one']);
  expect(await ambits.state.get(session.id, 'items')).toMatchObject({ value: ['one'] });
  expect(await ambits.usage(session.id)).toMatchObject({ calls: 0 });
  expect((await signedCall(caller, 'items', {}, { session: session.id, user: 'eve' })).value).toEqual([]);
  await gateway.end(session.id);
  // Another process hears of it within a second.
  const refused = async () => expect((await call('items')).error).toMatchObject({ code: 'SESSION_ENDED' });
  await vi.waitFor(refused, { timeout: 50_000, interval: 50 });
  for (const each of open.splice(0)) await each.close();
  await gateway.close();
  await Promise.all([ambits.close(), store.close()]);
  await rm(folder, { recursive: true, force: true });
});
