import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ConfigInput } from '../../../src/index.ts';
import { defineServer, eras, openBoundedGateway } from '../../gateway/bounded-gateway.ts';
import type { RawClient } from '../../gateway/raw-client.ts';
import { callModern, readToolText } from '../../journeys/raw-mcp-client.ts';
import { counts } from '../../proof.ts';

const on = openBoundedGateway();

/** Two servers with the tools `mark`, `slow` and `crash`; those of `keep` are narrowed in every way there is. */
function narrowed(era: string, more: Partial<ConfigInput> = {}): Partial<ConfigInput> {
  const { env, ...server } = defineServer(era);
  return {
    servers: {
      keep: {
        ...server,
        env: { ...env, SCOPE: 'public' },
        tools: { deny: ['crash'], permissions: { slow: 'keep:slow' } },
      },
      drop: defineServer(era),
    },
    rules: [
      { id: 'no-late-marks', deny: 'keep__mark', when: `has(args.ms) && args.ms > 5 && session.userId != 'root'` },
      { id: 'no-crash', deny: '*__crash' },
    ],
    ...more,
  };
}

const refusal = async (client: RawClient, name: string, args: Record<string, unknown> = {}) => {
  const { result } = await client.request('tools/call', { name, arguments: args });
  return { isError: result?.['isError'], ...(result?.['_meta'] as Record<string, unknown>) };
};

async function listening(client: RawClient, era: string): Promise<void> {
  if (era !== 'modern') return;
  const heard = client.told('notifications/subscriptions/acknowledged');
  void client.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
  await heard;
}

describe.each(eras)('in the %s era', (era) => {
  test('W11: a tool beside one of ours is described with a pointer, or hidden and refused with one', async () => {
    const instead = { 'ma*': 'session_edit_file' };
    await on.start(era, {
      servers: {
        keep: { ...defineServer(era), tools: { instead } },
        drop: { ...defineServer(era), tools: { instead, hideReplaced: true } },
      },
    });
    const { id } = await on.gateway.createSession();
    const [one, all] = [await on.connect(id, era, 'keep'), await on.connect(id, era)];
    const described = async (client: RawClient, name: string) => {
      const { result } = await client.request('tools/list', {});
      const tools = result?.['tools'] as { name: string; description?: string }[];
      return tools.find((tool) => tool.name === name)?.description;
    };
    expect(await described(one, 'mark')).toMatch(/^Use session_edit_file instead/);
    expect(await described(all, 'keep__mark')).toMatch(/^Use session_edit_file instead/);
    expect((await described(one, 'slow')) ?? '').not.toMatch(/session_edit_file/);
    expect(await one.call('mark')).toBe('done');
    expect(await all.tools()).not.toContain('drop__mark');
    const there = { rule: 'servers.drop.tools.instead', hint: 'Call session_edit_file.' };
    expect(await refusal(all, 'drop__mark')).toMatchObject({ isError: true, 'ambit/error': there });
  });

  test('P7: lists and calls keep to the same bounds at both addresses', async () => {
    await on.start(era, narrowed(era));
    const { id } = await on.gateway.createSession({ permissions: ['keep:slow'] });
    const [one, all, bare] = [
      await on.connect(id, era, 'keep'),
      await on.connect(id, era),
      await on.connect((await on.gateway.createSession()).id, era),
    ];
    expect(await one.tools()).toEqual(['mark', 'slow']);
    // The server lets everybody share its list; what one session is shown of it must not be shared.
    const { result } = await one.request('tools/list', {});
    expect(result?.['cacheScope']).toBe(era === 'modern' ? 'private' : undefined);
    expect(await all.tools()).toEqual(['keep__mark', 'keep__slow', 'drop__mark', 'drop__slow']);
    expect(await bare.tools()).toEqual(['keep__mark', 'drop__mark', 'drop__slow']);
    expect(await one.call('mark', { ms: 5 })).toBe('done');
    expect(await all.call('keep__mark')).toBe('done');
    expect(await all.call('drop__mark', { ms: 60 })).toBe('done');
    const late = { isError: true, 'ambit/error': { code: 'PERMISSION_DENIED', rule: 'no-late-marks' } };
    expect(await refusal(one, 'mark', { ms: 6 })).toMatchObject(late);
    expect(await refusal(all, 'keep__mark', { ms: 6 })).toMatchObject(late);
    expect(await refusal(all, 'keep__mark', { ms: 'x' })).toMatchObject(late);
    expect(await one.call('mark', { Ms: 6 })).toMatch(/PERMISSION_DENIED: .*different spelling/);
    expect(await refusal(one, 'crash')).toMatchObject({ 'ambit/error': { rule: 'servers.keep.tools.deny' } });
    expect(await refusal(all, 'drop__crash')).toMatchObject({ 'ambit/error': { rule: 'no-crash' } });
    expect(await one.call('crash')).toMatch(/^PERMISSION_DENIED: The tool "crash" cannot be called/);
  });

  test('L10: a permission is asked for before the tool runs, and narrowing takes it away at once', async () => {
    await on.start(era, narrowed(era));
    const { id, permissions } = await on.gateway.createSession({ permissions: ['keep:slow', 'keep:slow', 'x'] });
    expect(permissions).toEqual(['keep:slow', 'x']);
    const [one, all] = [await on.connect(id, era, 'keep'), await on.connect(id, era)];
    expect(await one.call('slow', { ms: 0 })).toBe('done');
    expect(await all.tools()).toContain('keep__slow');
    await Promise.all([listening(one, era), listening(all, era)]);
    const told = [one, all].map((client) => client.told('notifications/tools/list_changed'));
    await expect(on.gateway.restrictSession(id, { permissions: ['keep:slow', 'y'] })).rejects.toThrow(/permission "y"/);
    expect((await on.gateway.restrictSession(id, { permissions: ['x'] })).permissions).toEqual(['x']);
    await Promise.all(told);
    expect(await one.tools()).toEqual(['mark']);
    expect(await all.tools()).not.toContain('keep__slow');
    expect(await one.call('slow', { ms: 0 })).toMatch(/PERMISSION_DENIED: .*"keep:slow".*--permission keep:slow/);
    expect(await all.call('keep__slow', { ms: 0 })).toMatch(/PERMISSION_DENIED/);
    await expect(on.gateway.restrictSession(id, { permissions: ['keep:slow'] })).rejects.toThrow(
      /permission "keep:slow"/,
    );
  });

  test('a reload that changes rules reaches the next call, and tells whose lists it changes', async () => {
    await on.start(era, narrowed(era));
    const { id } = await on.gateway.createSession();
    const [one, all] = [await on.connect(id, era, 'keep'), await on.connect(id, era)];
    expect(await Promise.all([one.call('mark'), all.call('keep__mark')])).toEqual(['done', 'done']);
    await Promise.all([listening(one, era), listening(all, era)]);
    const running = on.processes();
    const told = [one, all].map((client) => client.told('notifications/tools/list_changed'));
    const more = { rules: [{ id: 'not-here', deny: 'keep__m*', when: `session.trustLevel == 'direct'` }] };
    await on.gateway.reload({ version: 1, sessions: { defaultTrust: 'direct' }, ...narrowed(era, more) });
    await Promise.all(told);
    expect(await refusal(one, 'mark')).toMatchObject({ 'ambit/error': { rule: 'not-here' } });
    expect(await one.tools()).toEqual([]);
    // The server is what it was: nothing was started anew.
    expect(on.processes()).toBe(running);
    expect(await all.tools()).toEqual(['drop__mark', 'drop__slow', 'drop__crash']);
  });
});

test('what is explained is what a call gets', async () => {
  const rules = [
    { id: 'small', allow: 'keep__*', when: 'args.n < 10' },
    { id: 'named', allow: ['keep__mark'], when: `args.name in ['a', 'b'] && 'p' in session.permissions` },
    { id: 'never', deny: 'keep__mark', when: `has(args.path) && under(args.path, 'prod')` },
  ];
  await on.start('modern', narrowed('modern', { rules }));
  const sessions = await Promise.all(
    [[], ['p'], ['keep:slow', 'p']].map(async (permissions) => {
      const { id } = await on.gateway.createSession({ permissions });
      return { id, one: await on.connect(id, 'modern', 'keep'), all: await on.connect(id, 'modern') };
    }),
  );
  const args = fc.record(
    {
      n: fc.constantFrom<unknown>(1, 9.5, 10, 'x', null, 1e300, 2 ** 60),
      name: fc.constantFrom<unknown>('a', 'c', ['a'], {}),
      path: fc.constantFrom<unknown>('prod/x', 'a/../prod', '/prod', 'src', '', 5),
      N: fc.constant(1),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...sessions), fc.constantFrom('mark', 'crash'), args, async (who, tool, given) => {
      const { allowed, rule } = await on.gateway.explain(who.id, `keep__${tool}`, given);
      for (const got of [await refusal(who.one, tool, given), await refusal(who.all, `keep__${tool}`, given)]) {
        expect(got['isError'] !== true).toBe(allowed);
        if (!allowed) expect(got['ambit/error' as keyof typeof got]).toMatchObject({ code: 'PERMISSION_DENIED', rule });
      }
    }),
    { numRuns: counts(60, 3000) },
  );
});

test('the journal names the rule of every call that one was asked for', async () => {
  const rules = [{ id: 'only-x', allow: 'keep__mark', when: `args.x == 1` }];
  await on.start('modern', narrowed('modern', { rules }));
  const { id } = await on.gateway.createSession();
  const all = await on.connect(id, 'modern');
  for (const [name, args] of [
    ['keep__mark', { x: 1 }],
    ['keep__mark', { x: 2 }],
    ['drop__mark', {}],
  ] as const)
    await all.call(name, args);
  await on.close();
  const calls = on.journal(id).filter(({ method }) => method === 'tools/call');
  expect(calls.map(({ outcome, rule }) => [outcome, rule])).toEqual([
    ['ok', 'only-x'],
    ['PERMISSION_DENIED', 'only-x'],
    ['ok', undefined],
  ]);
});

test('an agent SDK is handed narrowed servers only behind Ambit', async () => {
  const far = { url: 'http://127.0.0.1:9/mcp', tools: { deny: ['x'] } };
  const { servers = {}, ...more } = narrowed('modern', { rules: [] });
  await on.start('modern', { ...more, servers: { ...servers, far, free: { url: 'http://127.0.0.1:9/mcp' } } });
  const { mcpServers, servers: views } = await on.gateway.resolve((await on.gateway.createSession()).id);
  expect(Object.keys(mcpServers)).toEqual(['keep', 'drop', 'free']);
  expect(mcpServers['keep']).toMatchObject({ args: expect.arrayContaining(['run', '--session', '--name', 'keep']) });
  expect(mcpServers['drop']).toMatchObject({ args: defineServer('modern').args });
  expect(views.find(({ name }) => name === 'far')).toMatchObject({
    available: false,
    reason: expect.stringContaining('--via gateway'),
  });
});

test('a rule sees the workspace that a client has selected, within its bounds', async () => {
  const rules = [{ id: 'not-there', deny: 'keep__mark', when: `session.workspaceId == 'w'` }];
  const workspaces = {
    w: { path: join(on.folder, 'w'), create: true },
    v: { path: join(on.folder, 'v'), create: true },
  };
  await on.start('modern', narrowed('modern', { rules, workspaces }));
  const { url } = await on.gateway.listen({ host: '127.0.0.1', port: 0 });
  const said = (token: string, workspace: string) =>
    readToolText(
      callModern(`${url}/mcp/keep`, token, 'mark', '{}', {
        params: '"name":"mark","arguments":{}',
        meta: `"ambit.workspace":"${workspace}"`,
      }),
    );
  const roaming = await on.gateway.createSession();
  expect(await said(roaming.token, 'w')).toMatch(/^PERMISSION_DENIED: .*"not-there"/);
  expect(await said(roaming.token, '')).toBe('done');
  const settled = await on.gateway.createSession({ workspaceId: 'w' });
  expect(await said(settled.token, 'v')).toMatch(/^PERMISSION_DENIED: .*"not-there"/);
});
