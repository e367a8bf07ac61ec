import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { callModern } from '../../journeys/raw-mcp-client.ts';
import { eras, openBoundedGateway } from '../bounded-gateway.ts';
import type { RawClient } from '../raw-client.ts';

const on = openBoundedGateway();
const names = [
  'session_info',
  'session_list',
  'session_end',
  'session_context',
  'session_state_get',
  'session_state_set',
  'session_state_list',
  'session_state_delete',
  'session_create',
  'session_send_message',
  'session_inbox',
  'session_search',
  'session_report',
  'session_result',
  'session_read_file',
  'session_edit_file',
  'session_delete_file',
  'session_move_file',
  'session_file_info',
  'session_list_dir',
  'session_file_search',
  'session_grep_search',
  'session_codebase_search',
];

async function listed(client: RawClient): Promise<string[]> {
  const { result } = await client.request('tools/list');
  return ((result?.['tools'] ?? []) as { name: string }[]).map(({ name }) => name);
}

async function answer(client: RawClient, name: string, args: object): Promise<Record<string, unknown>> {
  const { result } = await client.request('tools/call', { name, arguments: args });
  return result ?? {};
}

const errorOf = (result: Record<string, unknown>) =>
  (result['_meta'] as { 'ambit/error'?: { code: string; rule?: string } } | undefined)?.['ambit/error'];

describe.each(eras)('in the %s era', (era) => {
  test('L13: Ambit’s own tools are at their own address, and beside those of the servers', async () => {
    await on.start(era);
    const { id } = await on.gateway.createSession({ name: 'task#1' });
    const [own, all] = [await on.connect(id, era, 'ambit'), await on.connect(id, era)];
    expect(await listed(own)).toEqual(names);
    expect((await listed(all)).filter((name) => !name.includes('__'))).toEqual(names);
    for (const client of [own, all]) {
      const info = await answer(client, 'session_info', { session: 'current' });
      expect(info['structuredContent']).toMatchObject({ session: { id, name: 'task#1', current: true } });
      expect(info['resultType']).toBe(era === 'modern' ? 'complete' : undefined);
      expect(await answer(client, 'session_state_set', { session: 'task#1', key: 'k', value: 1 })).toMatchObject({
        structuredContent: { key: 'k' },
      });
    }
    const recorded = () => on.journal(id).filter(({ name }) => name === 'session_info');
    await expect.poll(() => recorded().length).toBe(2);
    expect(recorded()).toMatchObject([
      { server: 'ambit', outcome: 'ok', sessionId: id },
      { server: 'ambit', outcome: 'ok', sessionId: id },
    ]);
  });

  test('their address speaks the protocol, and nothing beyond it', async () => {
    await on.start(era, { servers: {} });
    const { id } = await on.gateway.createSession();
    const own = await on.connect(id, era, 'ambit');
    const told = era === 'modern' ? (await own.request('server/discover')).result : own.opened?.result;
    expect(told).toMatchObject({ capabilities: { tools: { listChanged: true } } });
    expect(JSON.stringify(told)).toContain('"name":"ambit"');
    expect(told?.['capabilities']).toHaveProperty('resources', { subscribe: true });
    if (era === 'handshake') expect((await own.request('ping')).result).toEqual({});
    for (const method of ['prompts/list', 'prompts/get', 'session_info', 'tools/nothing', '__proto__']) {
      expect((await own.request(method, { name: 'x' })).error?.code).toBe(-32601);
    }
    expect(errorOf(await answer(own, 'keep__mark', {}))?.code).toBe('REQUEST_INVALID');
    expect(errorOf(await answer(own, 'constructor', { session: 'current' }))?.code).toBe('REQUEST_INVALID');
  });

  test('P4: what the agent says of sessions widens nothing', async () => {
    await on.start(era, { servers: {} });
    const { id } = await on.gateway.createSession();
    const sibling = await on.gateway.createSession({ name: 'sibling' });
    const other = await on.gateway.createSession({ userId: 'bob' });
    const own = await on.connect(id, era, 'ambit');
    const meta = { 'ambit/context': { sessionId: other.id, userId: 'bob' }, 'ambit/use-session': other.id };
    const { result } = await own.request('tools/call', {
      name: 'session_info',
      arguments: { session: 'current' },
      _meta: meta,
    });
    expect(result?.['structuredContent']).toMatchObject({ session: { id } });
    expect(errorOf(await answer(own, 'session_info', { session: other.id }))?.code).toBe('SESSION_NOT_FOUND');
    // In the process the caller is the local user, who reaches what is the same user's.
    expect(errorOf(await answer(own, 'session_info', { session: sibling.id }))).toBeUndefined();
  });

  test('arguments that would not be kept as they were sent are refused', async () => {
    await on.start(era, { servers: {} });
    const { id } = await on.gateway.createSession();
    const own = await on.connect(id, era, 'ambit');
    for (const value of [1e300, [2 ** 53]]) {
      const refused = await answer(own, 'session_state_set', { session: 'current', key: 'k', value });
      expect(errorOf(refused)?.code).toBe(typeof value === 'number' ? undefined : 'REQUEST_INVALID');
    }
  });

  test('rules match them by their bare names: deny wins, and lists show what could be allowed', async () => {
    const rules = [
      { id: 'no-ending', deny: 'session_end' },
      { id: 'no-secrets', deny: 'session_state_*', when: `args.key.startsWith('secret')` },
    ];
    await on.start(era, { servers: {}, rules });
    const { id } = await on.gateway.createSession();
    for (const client of [await on.connect(id, era, 'ambit'), await on.connect(id, era)]) {
      expect(await listed(client)).toEqual(names.filter((name) => name !== 'session_end'));
      expect(errorOf(await answer(client, 'session_end', { session: 'current' }))).toMatchObject({
        code: 'PERMISSION_DENIED',
        rule: 'no-ending',
      });
      const secret = { session: 'current', key: 'secret-one', value: 1 };
      expect(errorOf(await answer(client, 'session_state_set', secret))?.rule).toBe('no-secrets');
      expect(errorOf(await answer(client, 'session_state_set', { ...secret, key: 'plain' }))).toBeUndefined();
    }
    const explained = await on.gateway.explain(id, 'session_end');
    expect(explained).toMatchObject({ server: 'ambit', tool: 'session_end', allowed: false, rule: 'no-ending' });
    expect(await on.gateway.explain(id, 'session_list')).toMatchObject({ allowed: true });
  });

  test('they count against the quota', async () => {
    await on.start(era, { servers: {}, quotas: { session: { callsPerMinute: 1, burst: 2 } } });
    const { id } = await on.gateway.createSession();
    const own = await on.connect(id, era, 'ambit');
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push(errorOf(await answer(own, 'session_info', { session: 'current' }))?.code);
    expect(codes).toEqual([undefined, undefined, 'QUOTA_EXCEEDED']);
    expect(await listed(own)).toEqual(names);
  });

  test('clients hear when they are shown others than before', async () => {
    const rules = [{ id: 'permitted', deny: 'session_end', when: `!('sessions:end' in session.permissions)` }];
    await on.start(era, { servers: {}, rules });
    const { id } = await on.gateway.createSession({ permissions: ['sessions:end'] });
    const own = await on.connect(id, era, 'ambit');
    if (era === 'modern') {
      const acknowledged = own.told('notifications/subscriptions/acknowledged');
      void own.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
      await acknowledged;
    }
    expect(await listed(own)).toContain('session_end');
    const told = own.told('notifications/tools/list_changed');
    await on.gateway.restrictSession(id, { permissions: [] });
    await told;
    expect(await listed(own)).not.toContain('session_end');
  });

  test('a session can end itself, and gets its answer', async () => {
    await on.start(era, { servers: {} });
    const { id } = await on.gateway.createSession();
    const [own, all] = [await on.connect(id, era, 'ambit'), await on.connect(id, era)];
    expect(await answer(all, 'session_end', { session: 'current' })).toMatchObject({
      structuredContent: { ended: true },
    });
    const late = await own.request('tools/call', { name: 'session_info', arguments: { session: 'current' } });
    expect(JSON.stringify(late)).toMatch(/SESSION_ENDED|-32001/);
  });
});

test.each(['ambit', undefined])(
  'a cancellation ends the stream of the client that sends it, not one with the same id of another client (%s)',
  async (server) => {
    const rules = [{ id: 'permitted', deny: 'session_end', when: `!('sessions:end' in session.permissions)` }];
    await on.start('modern', { servers: {}, rules });
    const clients = [];
    for (const name of ['mine', 'theirs']) {
      const { id } = await on.gateway.createSession({ name, permissions: ['sessions:end'] });
      const client = await on.connect(id, 'modern', server);
      const acknowledged = client.told('notifications/subscriptions/acknowledged');
      // The first request of each client has the id 1.
      void client.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
      await acknowledged;
      clients.push({ id, client });
    }
    const [mine, theirs] = clients as [(typeof clients)[0], (typeof clients)[0]];
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };
    mine.client.send({ method: 'notifications/cancelled', params: { requestId: 1, _meta } });
    await listed(mine.client);
    const told = theirs.client.told('notifications/tools/list_changed');
    for (const { id } of [mine, theirs]) await on.gateway.restrictSession(id, { permissions: [] });
    await told;
    expect(mine.client.heard.map(({ method }) => method)).not.toContain('notifications/tools/list_changed');
  },
);

test('a listen stream ends with its session at every address, and those of other sessions go on', async () => {
  await on.start('modern');
  for (const server of ['ambit', undefined, 'keep']) {
    const listen = async () => {
      const { id } = await on.gateway.createSession();
      const client = await on.connect(id, 'modern', server);
      const acknowledged = client.told('notifications/subscriptions/acknowledged');
      const answer = client.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
      await acknowledged;
      return { id, answer };
    };
    const [mine, theirs] = [await listen(), await listen()];
    await on.gateway.endSession(mine.id);
    expect(JSON.stringify(await mine.answer), server).toContain('SESSION_ENDED');
    expect(await Promise.race([theirs.answer, pause(50, 'open')]), server).toBe('open');
  }
});

test('L13: a token reaches its own session and descendants over the wire, and nothing else', async () => {
  await on.start('modern', { servers: {} });
  const parent = await on.gateway.createSession({ name: 'parent' });
  const child = await on.gateway.createSession({ name: 'child', parentId: parent.id });
  const sibling = await on.gateway.createSession({ name: 'sibling' });
  const { url } = await on.gateway.listen({ port: 0 });
  const call = async (token: string, tool: string, args: object) => {
    const answer = await callModern(`${url}/mcp/ambit`, token, tool, JSON.stringify(args));
    return JSON.parse((await answer.rest()).at(-1) ?? '').result as Record<string, unknown>;
  };
  expect(await call(parent.token, 'session_info', { session: 'child' })).toMatchObject({
    structuredContent: { session: { id: child.id } },
  });
  const unknown = await call(parent.token, 'session_info', { session: 'nobody' });
  expect(errorOf(unknown)?.code).toBe('SESSION_NOT_FOUND');
  for (const reference of [sibling.id, 'sibling', sibling.id.slice(0, 8)]) {
    expect(await call(parent.token, 'session_info', { session: reference })).toEqual(unknown);
  }
  expect(await call(child.token, 'session_end', { session: 'parent' })).toEqual(unknown);
  await call(parent.token, 'session_end', { session: 'current' });
  expect((await on.gateway.listSessions()).map(({ id }) => id)).toEqual([sibling.id]);
  expect(errorOf(await call(child.token, 'session_info', { session: 'current' }))?.code).toBe('SESSION_ENDED');
});
