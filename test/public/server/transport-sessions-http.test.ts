import { afterEach, describe, expect, test } from 'vitest';
import {
  type AuthInfo,
  createServerSessions,
  type PrincipalOf,
  type ServerSessionsOptions,
} from '../../../src/public/server/index.ts';
import { createGate } from './build-server.ts';
import { type Caller, connectHttp, connectPipe, createAuth, serveSessions, serveStateless } from './connect-client.ts';
import { openClockedStore } from './open-clocked-store.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const principal: PrincipalOf = (auth) => {
  const user = auth?.extra?.user;
  if (typeof user !== 'string') return undefined;
  return { userId: user, permissions: auth?.scopes ?? [], trustLevel: 'direct' };
};

function sessionsWith(options: ServerSessionsOptions = {}) {
  const sessions = createServerSessions({ principal, ...options, context: { env: {}, ...options.context } });
  open.push(sessions);
  return sessions;
}

async function idOf(caller: Caller, meta?: object): Promise<string> {
  const { value, text } = await caller.call('whoami', {}, meta);
  if (value === undefined) throw new Error(text);
  return (value as { sessionId: string }).sessionId;
}

async function client(...given: Parameters<typeof connectHttp>) {
  const caller = await connectHttp(...given);
  open.push(caller);
  return caller;
}

describe.each(['modern', 'handshake'] as const)('without a transport session, %s era', (era) => {
  test('L2: the credential names the caller and has one default session for all server instances', async () => {
    const serve = serveStateless(sessionsWith());
    const [ada, again, bob] = await Promise.all([
      client(serve, era, createAuth('ada', ['notes:write'])),
      client(serve, era, createAuth('ada', ['notes:write'])),
      client(serve, era, createAuth('bob')),
    ]);
    expect((await ada.call('whoami')).value).toMatchObject({ status: 'own', userId: 'ada', trustLevel: 'direct' });
    await ada.call('add', { item: 'of ada' });
    expect((await again.call('items')).value).toEqual(['of ada']);
    expect((await bob.call('items')).value).toEqual([]);
    expect(await idOf(again)).toBe(await idOf(ada));
    expect(await idOf(bob)).not.toBe(await idOf(ada));
  });

  test('L10: a call is bounded by its credential and by its session', async () => {
    const serve = serveStateless(sessionsWith());
    let scopes = ['notes:write'];
    const ada = await client(serve, era, () => createAuth('ada', scopes)());
    expect((await ada.call('delete_note')).value).toBe('deleted');
    scopes = [];
    expect((await ada.call('delete_note')).error).toMatchObject({ code: 'PERMISSION_DENIED' });
  });

  test('L10: credentials of one user with other bounds have sessions of their own', async () => {
    const serve = serveStateless(sessionsWith());
    const [wide, narrow] = await Promise.all([
      client(serve, era, createAuth('ada', ['notes:write', 'notes:read'])),
      client(serve, era, createAuth('ada', ['notes:read'])),
    ]);
    await wide.call('add', { item: 'of the wide one' });
    expect((await narrow.call('items')).value).toEqual([]);
    expect((await narrow.call('whoami')).value).toMatchObject({ permissions: ['notes:read'] });
  });

  test('a call without a known caller is refused', async () => {
    const broken: PrincipalOf = () => {
      throw new Error('secret of the directory');
    };
    for (const given of [{}, { principal: broken }, { principal: () => ({}) as never }, { principal: undefined }]) {
      const caller = await client(serveStateless(sessionsWith(given)), era, () => undefined);
      const refused = await caller.call('whoami');
      expect(refused.error).toMatchObject({ code: 'UNAUTHENTICATED' });
      expect(refused.text).not.toContain('secret');
      expect((await caller.client.listTools()).tools.length).toBeGreaterThan(3);
    }
  });
});

test('L2: a modern request may choose only among the sessions of its user', async () => {
  const sessions = sessionsWith();
  const serve = serveStateless(sessions);
  const ada = await client(serve, 'modern', createAuth('ada'));
  const own = await sessions.open({ userId: 'ada', id: 'report-of-ada' });
  const foreign = await sessions.open({ userId: 'bob' });
  const use = (id: unknown) => ({ 'ambit/use-session': id });
  expect(await idOf(ada, use(own.id))).toBe('report-of-ada');
  expect(await idOf(ada)).not.toBe('report-of-ada');
  for (const id of [foreign.id, 'never-there-0', '../../etc', '', 'report-of', 'default', 7, null, { id: own.id }]) {
    const isText = typeof id === 'string';
    const { error, text } = await ada.call('whoami', {}, use(id));
    expect(error).toMatchObject({ code: isText ? 'SESSION_NOT_FOUND' : 'REQUEST_INVALID' });
    if (isText) expect(text).toBe((await ada.call('whoami', {}, use('never-there-1'))).text);
  }
  await sessions.end(own.id);
  await sessions.end(foreign.id);
  for (const id of [own.id, foreign.id]) {
    expect((await ada.call('whoami', {}, use(id))).error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
  }
});

test('L2: a host’s own name for a conversation finds its session', async () => {
  const serve = serveStateless(sessionsWith());
  const [ada, bob] = await Promise.all(['ada', 'bob'].map((user) => client(serve, 'modern', createAuth(user))));
  if (ada === undefined || bob === undefined) throw new Error('not connected');
  const [first, second] = [{ 'openai/session': 'chat-1' }, { sessionID: 'chat-2' }];
  const id = await idOf(ada, first);
  expect(await idOf(ada, first)).toBe(id);
  expect(new Set([id, await idOf(ada, second), await idOf(ada), await idOf(bob, first)]).size).toBe(4);
});

test('a credential names the caller also on a transport that does not look like HTTP', async () => {
  let user = 'ada';
  const caller = await connectPipe('v1', sessionsWith(), () => createAuth(user)());
  open.push(caller);
  const ofAda = await idOf(caller);
  expect((await caller.call('whoami')).value).toMatchObject({ status: 'own', userId: 'ada' });
  user = 'bob';
  expect((await caller.call('whoami')).value).toMatchObject({ status: 'own', userId: 'bob' });
  expect(await idOf(caller)).not.toBe(ofAda);
});

test('no session can be opened under a name that is reserved for default sessions or sessions of Ambit', async () => {
  const sessions = sessionsWith();
  for (const name of ['user:default', 'ambit:session-one']) {
    await expect(sessions.open({ userId: 'ada', name })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  }
});

test('a session token stands for exactly one session', async () => {
  const sessions = sessionsWith({ principal: (auth) => auth && { sessionToken: auth.token } });
  const serve = serveStateless(sessions);
  const { id, token } = await sessions.open({ userId: 'ada', permissions: ['notes:write'], trustLevel: 'direct' });
  const bearer = (given: string) => (): AuthInfo & { scopes: string[] } => ({
    token: given,
    clientId: 'c',
    scopes: [],
  });
  const holder = await client(serve, 'modern', bearer(token) as never);
  const other = await sessions.open({ userId: 'ada' });
  expect(await idOf(holder, { 'ambit/use-session': other.id })).toBe(id);
  expect((await holder.call('delete_note')).value).toBe('deleted');
  const thief = await client(serve, 'modern', bearer(token.replace(id, other.id)) as never);
  expect((await thief.call('whoami')).error).toMatchObject({ code: 'UNAUTHENTICATED' });
  await sessions.end(id);
  expect((await holder.call('whoami')).error).toMatchObject({ code: 'SESSION_ENDED' });
});

describe('with transport sessions', () => {
  test('L2: each transport session is a session of its own, apart from the default session', async () => {
    const serve = serveSessions(sessionsWith());
    const [one, two, modern] = await Promise.all([
      client(serve, 'handshake', createAuth('ada')),
      client(serve, 'handshake', createAuth('ada')),
      client(serve, 'modern', createAuth('ada')),
    ]);
    const ids = await Promise.all([one, two, modern].map((each) => idOf(each)));
    expect(new Set(ids).size).toBe(3);
    expect(await idOf(one, { 'ambit/use-session': ids[1] })).toBe(ids[0]);
  });

  test.each(['v1', 'v2'] as const)('L12: one belongs to whoever used it first (SDK %s)', async (sdk) => {
    let user = 'ada';
    const ada = await client(serveSessions(sessionsWith(), sdk), 'handshake', () => createAuth(user)());
    await ada.call('add', { item: 'secret' });
    user = 'bob';
    expect((await ada.call('items')).error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
    user = 'ada';
    expect((await ada.call('items')).value).toEqual(['secret']);
  });

  test('L12: without transport sessions, a header that names one is ignored', async () => {
    const sessions = sessionsWith();
    const ada = await client(serveSessions(sessions), 'handshake', createAuth('ada'));
    await ada.call('add', { item: 'secret' });
    const stolen = { 'Mcp-Session-Id': ada.transport.sessionId ?? '' };
    expect(stolen['Mcp-Session-Id']).not.toBe('');
    for (const era of ['modern', 'handshake'] as const) {
      for (const user of ['ada', 'bob']) {
        const other = await client(serveStateless(sessions), era, createAuth(user), stolen);
        expect((await other.call('items')).value).toEqual([]);
      }
    }
  });

  test('L4: an expired transport session is refused until the client initializes again', async () => {
    const { store, now, pass } = openClockedStore();
    const serve = serveSessions(sessionsWith({ store, ttlSeconds: 60, context: { now } }));
    let user = 'ada';
    const caller = await client(serve, 'handshake', () => createAuth(user)());
    await caller.call('whoami');
    pass(61);
    for (let i = 0; i < 2; i++) expect((await caller.call('whoami')).error).toMatchObject({ code: 'SESSION_EXPIRED' });
    user = 'bob';
    expect((await caller.call('whoami')).error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
    const anew = await client(serve, 'handshake', createAuth('ada'));
    expect((await anew.call('whoami')).isError).toBe(false);
    await store.close();
  });
});

test('L3, L15: concurrent users never see each other’s state', async () => {
  const serve = serveStateless(sessionsWith({ quotas: { user: { concurrentCalls: 50 } } }));
  const users = Array.from({ length: 12 }, (_, i) => `user-${i}`);
  const callers = await Promise.all(users.map((name) => client(serve, 'modern', createAuth(name))));
  const work = callers.flatMap((caller, i) =>
    Array.from({ length: 6 }, (_, n) => caller.call('add', { item: `${users[i]} ${n}`, pause: (i * 5 + n * 3) % 7 })),
  );
  for (const { isError, text } of await Promise.all(work)) expect(isError, text).toBe(false);
  for (const [i, caller] of callers.entries()) {
    const items = (await caller.call('items')).value as string[];
    expect(items.sort()).toEqual(Array.from({ length: 6 }, (_, n) => `${users[i]} ${n}`));
  }
});

test('L5: the sessions of a user are limited, and a running call keeps its session', async () => {
  const serve = serveSessions(sessionsWith({ maxSessions: 3, maxPerUser: 2 }));
  const [one, two] = [
    await client(serve, 'handshake', createAuth('ada')),
    await client(serve, 'handshake', createAuth('ada')),
  ];
  const held = createGate('kept');
  const waiting = one.call('wait', { at: 'kept' });
  await held.arrived;
  await two.call('whoami');
  const third = await client(serve, 'handshake', createAuth('ada'));
  expect((await third.call('whoami')).error).toMatchObject({ code: 'SESSION_LIMIT' });
  for (const name of ['bob', 'eve', 'dan']) {
    expect((await (await client(serve, 'handshake', createAuth(name))).call('whoami')).isError).toBe(false);
  }
  held.open();
  expect((await waiting).isError).toBe(false);
});

test('sessions that would end with each request are refused over HTTP', async () => {
  const caller = await client(serveStateless({ ttlSeconds: 60, context: { env: {} } }), 'modern', createAuth('ada'));
  const refused = await caller.call('whoami');
  expect(refused.error).toMatchObject({ code: 'CONFIG_INVALID' });
  expect(refused.text).toContain('createServerSessions()');
});
