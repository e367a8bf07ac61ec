import { afterAll, beforeAll, expect, test } from 'vitest';
import { defineServer, eras, openBoundedGateway } from '../bounded-gateway.ts';
import { type EchoingUpstream, startEchoUpstream } from '../echoing-upstream.ts';
import { createRawClient } from '../raw-client.ts';

const on = openBoundedGateway();
const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const ui = { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } };
const names = ['one', 'two'] as const;
const upstreams: EchoingUpstream[] = [];
let handshake: EchoingUpstream;
const shaken: Record<string, unknown>[] = [];
const schema = { type: 'object' };

/** Both servers have the app `ui://app`, and only the second one lists it. */
function answer(name: string, method: string, { uri, name: tool }: Record<string, unknown>): object | undefined {
  const app = { resourceUri: 'ui://app', visibility: ['model', 'app'] };
  switch (method) {
    case 'server/discover':
      return {
        ...hints,
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {}, extensions: { [`x/${name}`]: { name } } },
      };
    case 'tools/list': {
      const show = { name: 'show', inputSchema: schema, _meta: { ui: app, 'ui/resourceUri': 'ui://app' } };
      return {
        ...hints,
        tools: [show, { name: 'save', inputSchema: schema }, { name: `only-${name}`, inputSchema: schema }],
      };
    }
    case 'resources/list':
      return {
        ...hints,
        resources: [...(name === 'two' ? ['ui://app'] : []), 'note:///1', `${name}:///1`].map((each) => ({
          uri: each,
          name: each,
        })),
      };
    case 'resources/read':
      return { ...hints, contents: [{ uri, text: `${name} ${uri}` }] };
    case 'tools/call': {
      const link = (to: string) => ({ type: 'resource_link', uri: to, name: 'n' });
      const inside = { type: 'resource', resource: { uri: 'ui://app', text: 'x' } };
      return {
        resultType: 'complete',
        content: [{ type: 'text', text: `${name} ${tool}` }, link('note:///1'), link(`${name}:///1`), inside],
      };
    }
  }
  return undefined;
}

beforeAll(async () => {
  for (const name of names) upstreams.push(await startEchoUpstream((method, params) => answer(name, method, params)));
  handshake = await startEchoUpstream((method, params) => {
    if (method === 'initialize') {
      shaken.push(params);
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, extensions: ui, experimental: { e: {} } },
        serverInfo: { name: 's', version: '1' },
      };
    }
    return method === 'tools/list' ? { tools: [] } : undefined;
  });
});
afterAll(() => Promise.all([...upstreams, handshake].map((each) => each.close())));

const define = (at: number, tools = {}) => ({ url: upstreams[at]?.url ?? '', era: 'modern' as const, tools });
const servers = (tools = {}) => ({ one: define(0, tools), two: define(1) });

test.each(eras)('S3: in the %s era the tool of each server leads to its own app', async (era) => {
  await on.start('modern', { servers: servers() });
  const client = await on.connect((await on.gateway.createSession()).id, era);
  const { result } = await client.request('tools/list');
  const tools = result?.['tools'] as { name: string; _meta: Record<string, unknown> }[];
  for (const name of names) {
    const shown = `ui://ambit+${name}/app`;
    const { _meta } = tools.find((tool) => tool.name === `${name}__show`) ?? {};
    expect(_meta).toEqual({ ui: { resourceUri: shown, visibility: ['model', 'app'] }, 'ui/resourceUri': shown });
    const read = await client.request('resources/read', { uri: shown });
    expect(read.result?.['contents']).toEqual([{ uri: shown, text: `${name} ui://app` }]);
    const called = await client.request('tools/call', { name: `${name}__show`, arguments: {} });
    const content = called.result?.['content'] as { uri?: string; resource?: { uri: string } }[];
    expect(content.map((each) => each.uri ?? each.resource?.uri)).toEqual([
      undefined,
      `ambit+${name}:note:///1`,
      `${name}:///1`,
      shown,
    ]);
  }
  expect((await client.request('resources/read', { uri: 'ui://app' })).error?.message).toMatch(/one, two/);
  const { result: listed } = await client.request('resources/list');
  expect(JSON.stringify(listed)).toContain('"ui://ambit+two/app"');
});

test.each(eras)('S3: in the %s era a bare name gets around no rule and shows no hidden tool', async (era) => {
  await on.start('modern', { servers: servers() });
  const client = await on.connect((await on.gateway.createSession()).id, era);
  expect(await client.call('save')).toMatch(/Several servers have a tool "save".*one__save, two__save/);
  // The result contains the app of this server, so later bare names are those of its tools.
  expect(await client.call('only-two')).toBe('two only-two');
  expect(await client.call('save')).toBe('two save');
  await on.start('modern', {
    servers: servers({ deny: ['only-one'] }),
    rules: [
      { id: 'no-two', deny: 'two__only-two' },
      { id: 'not-now', deny: 'two__save', when: 'args.bad == true' },
    ],
  });
  const { id } = await on.gateway.createSession();
  const bound = await on.connect(id, era);
  const missing = await bound.call('missing');
  expect(missing).toMatch(/No server of this session has "missing"/);
  for (const hidden of ['only-one', 'only-two'])
    expect(await bound.call(hidden)).toBe(missing.replace('missing', hidden));
  await bound.request('resources/read', { uri: 'ui://ambit+two/app' });
  expect(await bound.call('save', { bad: true })).toMatch(/^PERMISSION_DENIED/);
  expect(await bound.call('save', { bad: false })).toBe('two save');
  expect(await bound.call('gone__save')).toMatch(/No server of this session/);
});

test('P1: a handshake-era server hears the extensions and the name of a modern client, and each set has its own link', async () => {
  await on.start('modern', { servers: { old: { url: handshake.url, era: 'handshake' }, ...servers() } });
  const { id } = await on.gateway.createSession();
  const clientInfo = { name: 'host', version: '2' };
  const meta = { 'io.modelcontextprotocol/clientInfo': clientInfo };
  const open = (extensions: object, server?: string) =>
    createRawClient(on.gateway.connect(id, server), 'modern', { meta, capabilities: { extensions } });
  const client = await open(ui, 'old');
  const { result } = await client.request('server/discover');
  expect(result?.['capabilities']).toEqual({ tools: {}, extensions: ui, experimental: { e: {} } });
  expect(shaken).toMatchObject([{ capabilities: { extensions: ui }, clientInfo }]);
  const other = await open({}, 'old');
  await other.request('tools/list');
  expect(shaken.map(({ capabilities }) => capabilities)).toEqual([{ extensions: ui }, {}]);
  const all = await open(ui);
  const discovered = (await all.request('server/discover')).result?.['capabilities'] as { extensions: object };
  const tasks = { 'io.modelcontextprotocol/tasks': {} };
  expect(discovered.extensions).toEqual({ ...ui, ...tasks, 'x/one': { name: 'one' }, 'x/two': { name: 'two' } });
  for (const each of [client, other, all]) await each.close();
  const translated = await on.connect(id, 'handshake', 'one');
  expect(translated.opened?.result?.['capabilities']).toMatchObject({ extensions: { 'x/one': { name: 'one' } } });
});

test('S8: a client that changes its name with each request gets one process', async () => {
  await on.start('handshake', { servers: { old: { ...defineServer('handshake'), era: 'handshake' as const } } });
  const client = await on.connect((await on.gateway.createSession()).id, 'modern', 'old');
  for (let n = 0; n < 5; n++) {
    const _meta = { 'io.modelcontextprotocol/clientInfo': { name: `client-${n}`, version: '1' } };
    await client.request('tools/call', { name: 'mark', _meta });
  }
  expect(on.processes()).toBe(1);
});
