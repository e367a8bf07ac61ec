import { afterEach, expect, test } from 'vitest';
import { createServerSessions, type ServerSessionsOptions } from '../../../src/public/server/index.ts';
import { createClaims, createMeta, createSigner } from '../sdk/signer.ts';
import { createGate } from './build-server.ts';
import { connectHttp, connectPipe, createAuth, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}, env: Record<string, string> = {}) {
  const sessions = createServerSessions({ tools: true, ...options, context: { env } });
  open.push(sessions);
  return sessions;
}

async function names(caller: Awaited<ReturnType<typeof connectPipe>>): Promise<string[]> {
  return (await caller.client.listTools()).tools.map(({ name }) => name);
}

test.each(['v1', 'v2'] as const)('L13, L15: the session tools stand beside the server’s own (SDK %s)', async (sdk) => {
  const caller = await connectPipe(sdk, sessionsWith());
  expect(await names(caller)).toEqual(
    expect.arrayContaining(['whoami', 'session_info', 'session_list', 'session_end', 'session_state_get']),
  );
  await caller.call('add', { item: 'one' });
  const kept = await caller.call('session_state_get', { session: 'current', key: 'items' });
  expect(kept.value).toMatchObject({ value: ['one'], version: 1 });
  const { sessionId } = (await caller.call('whoami')).value as { sessionId: string };
  expect((await caller.call('session_info', { session: 'current' })).value).toMatchObject({
    session: { id: sessionId, current: true },
  });
  expect((await caller.call('session_info', { session: 'unknown-one' })).error).toMatchObject({
    code: 'SESSION_NOT_FOUND',
  });
  await caller.close();
});

test('L13: a call that ends its own session is answered, other running calls are refused', async () => {
  const sessions = sessionsWith();
  const caller = await connectPipe('v2', sessions);
  const held = createGate('beside');
  const waiting = caller.call('wait', { at: 'beside' });
  await held.arrived;
  expect((await caller.call('session_end', { session: 'current' })).value).toMatchObject({ ended: true });
  expect((await waiting).error).toMatchObject({ code: 'SESSION_ENDED' });
  held.open();
  expect((await caller.call('session_list', {})).error).toMatchObject({ code: 'SESSION_ENDED' });
  await caller.close();
});

test('over HTTP a caller reaches the sessions of the same user within the credential, and no others', async () => {
  const principal: ServerSessionsOptions['principal'] = (auth) =>
    auth && { userId: String(auth.extra?.user), agentId: 'coder', permissions: ['notes:read'] };
  const sessions = sessionsWith({ principal });
  const mine = await sessions.open({ userId: 'ada', agentId: 'coder', name: 'mine' });
  const beyond = await Promise.all([
    sessions.open({ userId: 'bob', agentId: 'coder' }),
    sessions.open({ userId: 'ada', agentId: 'reviewer' }),
    sessions.open({ userId: 'ada', agentId: 'coder', permissions: ['notes:write'] }),
    sessions.open({ userId: 'ada', agentId: 'coder', trustLevel: 'direct' }),
  ]);
  const caller = await connectHttp(serveStateless(sessions), 'modern', createAuth('ada'));
  open.push(caller);
  for (const session of beyond.flatMap(({ id }) => [id, id.slice(0, 8)])) {
    expect((await caller.call('session_end', { session })).error).toMatchObject({ code: 'SESSION_NOT_FOUND' });
  }
  expect((await caller.call('session_end', { session: 'mine' })).value).toMatchObject({ id: mine.id, ended: true });
  const live = (await sessions.list()).map(({ id }) => id);
  expect(live).toEqual(expect.arrayContaining(beyond.map(({ id }) => id)));
});

test('behind Ambit the session tools are those of Ambit', async () => {
  const signer = await createSigner();
  const env = { AMBIT_JWKS: JSON.stringify(signer.jwks), AMBIT_SESSION_ID: 'session-one', AMBIT_TRUST_LEVEL: 'direct' };
  const caller = await connectPipe('v2', sessionsWith({}, env));
  expect(await names(caller)).not.toContain('session_end');
  const claims = createClaims({ name: 'session_end', canonical: '{"session":"current"}' });
  const meta = createMeta(await signer.sign(claims), claims);
  await expect(caller.call('session_end', { session: 'current' }, meta)).rejects.toThrow(/session_end/);
  await caller.close();

  const aud = 'http://kept.test/mcp';
  const sessions = createServerSessions({ tools: true, context: { env: {}, keys: signer.jwks, audience: aud } });
  open.push(sessions);
  const remote = await connectHttp(serveStateless(sessions), 'modern');
  open.push(remote);
  expect(await names(remote)).toContain('session_end');
  const listing = createClaims({ method: 'tools/list', name: '', aud });
  const { tools } = await remote.client.listTools({ _meta: createMeta(await signer.sign(listing), listing) } as never);
  expect(tools.map(({ name }) => name)).not.toContain('session_end');
});
