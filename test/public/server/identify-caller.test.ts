import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, test } from 'vitest';
import {
  type CallerPrincipal,
  createServerSessions,
  type ServerSessionsOptions,
} from '../../../src/public/server/index.ts';
import { openMemoryStore, type SessionStore } from '../../../src/stores/index.ts';
import { connectHttp, connectPipe, createAuth, serveSessions, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}) {
  const log = { info() {}, warn() {} };
  const sessions = createServerSessions({ log, ...options, context: { env: {} } });
  open.push(sessions);
  return sessions;
}

async function connect(sessions: ReturnType<typeof sessionsWith>, headers: Record<string, string>) {
  const caller = await connectHttp(serveStateless(sessions), 'modern', undefined, headers);
  open.push(caller);
  return caller;
}

test('G2: keys of another system are recognised, each asked for once', async () => {
  const asked: string[] = [];
  const sessions = sessionsWith({
    async identify(key) {
      asked.push(key);
      return key.startsWith('pcp_') ? { userId: key.slice(4) } : undefined;
    },
  });
  const [ada, bob, none, wrong, basic] = await Promise.all(
    ['Bearer pcp_ada', 'bearer  pcp_bob', '', 'Bearer other', 'Basic cGNwX2FkYQ=='].map((authorization) =>
      connect(sessions, authorization === '' ? {} : { authorization }),
    ),
  );
  for (let i = 0; i < 3; i++) expect((await ada?.call('whoami'))?.value).toMatchObject({ userId: 'ada' });
  expect((await bob?.call('whoami'))?.value).toMatchObject({ userId: 'bob' });
  for (const caller of [none, wrong, basic]) {
    const refused = await caller?.call('whoami');
    expect(refused?.error).toMatchObject({ code: 'UNAUTHENTICATED' });
    expect(refused?.text).not.toContain('ambit key');
  }
  expect(asked).toEqual(['pcp_ada', 'pcp_bob', 'other']);
});

test('a verified credential outranks a key, and a failing service refuses the call', async () => {
  const both = sessionsWith({ principal: () => ({ userId: 'by-credential' }), identify: () => ({ userId: 'by-key' }) });
  const verified = await connectHttp(serveStateless(both), 'modern', createAuth('x'), { authorization: 'Bearer k' });
  const keyed = await connect(both, { authorization: 'Bearer k' });
  open.push(verified);
  expect((await verified.call('whoami')).value).toMatchObject({ userId: 'by-credential' });
  expect((await keyed.call('whoami')).value).toMatchObject({ userId: 'by-key' });
  const failing = sessionsWith({
    unknownCallers: 'anonymous',
    identify: () => {
      throw new Error('database password is hunter2');
    },
  });
  const refused = await (await connect(failing, { authorization: 'Bearer k' })).call('whoami');
  expect(refused.error).toMatchObject({ code: 'UNAUTHENTICATED' });
  expect(refused.text).not.toContain('hunter2');
});

test.each([
  { userId: 'two words' },
  { userId: 'anonymous' },
  { userId: 'ada', trustLevel: 'root' as never },
  { userId: 'ada', permissions: ['NOT VALID'] },
  { userId: 'ada', permissions: 'notes:write' as never },
  { userId: 'ada', workspaceId: '../up' },
  { userId: 'ada', workspaceId: 'one', workspaces: ['two'] },
  { userId: 'ada', agentId: '' },
] satisfies CallerPrincipal[])('a caller that is not valid is refused, never widened: %j', async (caller) => {
  const warnings: unknown[] = [];
  const log = { info() {}, warn: (event: string) => void warnings.push(event) };
  const refused = await (await connect(sessionsWith({ log, principal: () => caller }), {})).call('whoami');
  expect(refused.error).toMatchObject({ code: 'CONFIG_INVALID' });
  expect(warnings).toEqual(['caller is not valid']);
});

test('P6: spellings of a trust level are normalised', async () => {
  const caller = await connect(
    sessionsWith({ principal: () => ({ userId: 'ada', trustLevel: 'trusted' as never }) }),
    {},
  );
  expect((await caller.call('whoami')).value).toMatchObject({ trustLevel: 'direct' });
});

describe('G7: a session ends with its connection', () => {
  test.each(['v1', 'v2'] as const)('when the client sends DELETE or its pipe closes (SDK %s)', async (sdk) => {
    const sessions = sessionsWith({ identify: (key) => ({ userId: key }) });
    const ended: string[] = [];
    sessions.onEnded(({ userId }, reason) => ended.push(`${userId} ${reason}`));
    const fetch = serveSessions(sessions, sdk);
    const [ada, bob] = await Promise.all(
      ['ada', 'bob'].map((key) => connectHttp(fetch, 'handshake', undefined, { authorization: `Bearer ${key}` })),
    );
    if (ada === undefined || bob === undefined) throw new Error('not connected');
    open.push(bob);
    await ada.call('whoami');
    await bob.call('add', { item: 'stays' });
    await ada.transport.terminateSession();
    await expect.poll(() => ended).toEqual(['ada closed']);
    await ada.close();
    expect((await bob.call('items')).value).toEqual(['stays']);
    const pipe = await connectPipe(sdk, sessions);
    await pipe.call('whoami');
    await pipe.close();
    await expect.poll(() => ended).toEqual(['ada closed', 'local closed']);
  });

  test.each(['pipe', 'transport session'] as const)(
    'when the client leaves during its first call (%s)',
    async (kind) => {
      const store = openMemoryStore();
      let onCreating = () => {};
      let letCreate = () => {};
      const creating = new Promise<void>((resolve) => {
        onCreating = resolve;
      });
      const allowed = new Promise<void>((resolve) => {
        letCreate = resolve;
      });
      const slow: SessionStore = {
        ...store,
        async create(...given) {
          onCreating();
          await allowed;
          return store.create(...given);
        },
      };
      const sessions = sessionsWith({ store: slow, principal: () => ({ userId: 'ada' }) });
      const events: string[] = [];
      sessions.onOpened(() => events.push('opened'));
      sessions.onEnded((_, reason) => events.push(reason));
      const caller =
        kind === 'pipe' ? await connectPipe('v2', sessions) : await connectHttp(serveSessions(sessions), 'handshake');
      const call = caller.call('whoami').catch(() => undefined);
      await creating;
      if ('transport' in caller)
        await (caller as { transport: StreamableHTTPClientTransport }).transport.terminateSession();
      await caller.close();
      await call;
      letCreate();
      await expect.poll(() => events).toEqual(['opened', 'closed']);
      await sessions.close();
      await store.close();
    },
  );

  test('a session that was named or found by its credential stays', async () => {
    const sessions = sessionsWith({ local: { id: 'named-by-option' }, identify: (key) => ({ userId: key }) });
    const pipe = await connectPipe('v2', sessions);
    await pipe.call('whoami');
    await pipe.close();
    const http = await connect(sessions, { authorization: 'Bearer ada' });
    await http.call('whoami');
    await http.close();
    expect((await sessions.list()).map(({ userId }) => userId).sort()).toEqual(['ada', 'local']);
  });
});
