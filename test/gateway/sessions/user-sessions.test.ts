import { join } from 'node:path';
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ConfigInput } from '../../../src/config/schema/schema.ts';
import {
  type Behaviour,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import {
  callModern,
  handshake,
  modernHeaders,
  modernRequest,
  openClient,
  post,
  readOutcome,
} from '../../journeys/json-mcp-client.ts';
import { connectV1 } from '../../public/sdk-clients.ts';
import { createKeyFor, findSession, listToolsFor, readSession, trySession } from '../keyed-gateway.ts';
import { createSharedData, type ServedGateway } from '../shared-data.ts';

let upstream: Upstream;
/** Two pages, with a number that no double holds. */
const listed: Behaviour = ({ id, params }, response) => {
  const second = 'cursor' in params;
  const tool = `{"name":"${second ? 'more' : 'say'}","inputSchema":{"type":"object","maxProperties":9007199254740993}}`;
  const rest = `"resultType":"complete","ttlMs":0,"cacheScope":"private"${second ? '' : ',"nextCursor":"2"'}`;
  sendJson(response, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"tools":[${tool}],${rest}}}`);
};
const none: Behaviour = ({ id }, response) =>
  sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }));
beforeAll(async () => {
  upstream = await startUpstream(
    {},
    { 'tools/list': listed, 'prompts/list': none, 'resources/list': none, 'resources/templates/list': none },
  );
});
afterAll(() => upstream.stop());

const data = createSharedData();
const config = (): Partial<ConfigInput> => ({
  servers: { it: { url: upstream.url, trust: ['direct', 'sandboxed'] } },
  sessions: { allowDirect: 'always' },
  // Answers as they are, without what users are told with the first one.
  governance: { carrier: 'instructions' },
  workspaces: {
    shop: { path: join(data.folder, 'shop'), create: true },
    yard: { path: join(data.folder, 'yard'), create: true },
  },
});
const serve = (more: object = {}): Promise<ServedGateway> => data.serve({ ...config(), ...more });

describe('G2: a user is known by a key', () => {
  test('to a real client of the handshake era, in one session for each handshake', async () => {
    const own = await serve();
    const { id: keyId, key } = await createKeyFor(own, 'ada');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const connect = () =>
      connectV1(
        new StreamableHTTPClientTransport(new URL(own.mcp()), {
          requestInit: { headers: { authorization: `Bearer ${key}` } },
        }) as never,
      );
    const clients = [await connect(), await connect()];
    const told = await Promise.all(clients.map((client) => client.call('session_info', { session: 'current' })));
    const seen = told.map((text) => (JSON.parse(text) as { session: { id: string; userId: string } }).session);
    expect(seen.map(({ userId }) => userId)).toEqual(['ada', 'ada']);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(2);
    for (const { id } of seen) expect(own.gateway.sessions.get(id)).toMatchObject({ keyId, userId: 'ada' });
    expect(await clients[0]?.tools()).toContain('session_info');
    for (const client of clients) await client.close();
  });

  test('to a real client of the modern era, in the session of that user', async () => {
    const own = await serve();
    const { key } = await createKeyFor(own, 'ada');
    const seen = [];
    for (let i = 0; i < 2; i++) {
      const client = new ClientV2({ name: 'v2', version: '1' }, { versionNegotiation: { mode: 'auto' } });
      const requestInit = { headers: { authorization: `Bearer ${key}` } };
      await client.connect(new TransportV2(new URL(own.mcp()), { requestInit }));
      const { structuredContent } = await client.callTool({ name: 'session_info', arguments: { session: 'current' } });
      seen.push((structuredContent as { session: { id: string; userId: string } }).session);
      await client.close();
    }
    expect(seen.map(({ userId }) => userId)).toEqual(['ada', 'ada']);
    expect(seen[0]?.id).toBe(seen[1]?.id);
  });

  test('whatever else the request says; and the upstream is told that user', async () => {
    const own = await serve();
    const { key } = await createKeyFor(own, 'ada');
    const meta = { 'ambit/context': { userId: 'eve' }, userId: 'eve' };
    expect(readOutcome(await callModern(own.mcp('it'), key, 'say', { userId: 'eve' }, { meta }))).toBe('right');
    await own.close();
    const calls = data.journal().filter((entry) => entry['method'] === 'tools/call');
    expect(calls).toMatchObject([{ userId: 'ada', outcome: 'ok' }]);
    expect(JSON.stringify(data.journal())).not.toContain(key.slice(-20));
  });
});

describe('L12: a transport session belongs to its user', () => {
  test('to anybody else, and to a narrower key, it is unknown: POST, GET and DELETE', async () => {
    const own = await serve();
    const [ada, eve] = [await createKeyFor(own, 'ada'), await createKeyFor(own, 'eve')];
    const narrow = await createKeyFor(own, 'ada', { trustLevel: 'sandboxed' });
    const shop = await createKeyFor(own, 'ada', { workspaces: ['shop'] });
    const victim = await openClient(own.mcp('it'), ada.key);
    for (const { key } of [eve, narrow, shop]) {
      const headers = { authorization: `Bearer ${key}`, ...victim.headers };
      const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'say', arguments: {} } };
      expect((await post(own.mcp('it'), key, JSON.stringify(call), victim.headers)).status).toBe(404);
      for (const method of ['GET', 'DELETE']) {
        const answer = await fetch(own.mcp('it'), { method, headers: { accept: 'text/event-stream', ...headers } });
        expect(answer.status).toBe(404);
      }
    }
    expect(readOutcome(await victim.call('say'))).toBe('right');
    const another = await createKeyFor(own, 'ada');
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'say', arguments: {} } };
    expect(readOutcome(await post(own.mcp('it'), another.key, JSON.stringify(call), victim.headers))).toBe('right');
  });

  test('without one, only a handshake opens a session', async () => {
    const own = await serve();
    const { key } = await createKeyFor(own, 'ada');
    const versions = { 'mcp-protocol-version': handshake };
    for (const body of ['{"jsonrpc":"2.0","id":1,"method":"tools/list"}', '[{"jsonrpc":"2.0","method":"x"}]']) {
      expect((await post(own.mcp(), key, body, versions)).status).toBe(400);
    }
    expect((await own.gateway.sessions.list({ userId: 'ada' })).sessions).toEqual([]);
  });

  test('goes on in another process, and its session ends with its goodbye', async () => {
    const [here, there] = [await serve(), await serve()];
    const { key } = await createKeyFor(here, 'ada');
    const client = await openClient(here.mcp('ambit'), key);
    const call = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'session_info', arguments: { session: 'current' } },
    };
    const told = readSession(await post(there.mcp('ambit'), key, JSON.stringify(call), client.headers));
    expect(told).toMatchObject({ userId: 'ada' });
    await client.leave();
    expect((await here.gateway.sessions.list({ userId: 'ada' })).sessions).toEqual([]);
    expect((await client.call('session_info')).status).toBe(404);
  });
});

describe('a modern request of a user', () => {
  test('finds the one default session, in every process', async () => {
    const [here, there] = [await serve(), await serve()];
    const { key } = await createKeyFor(here, 'ada');
    const found = await Promise.all([here, there, here, there].map((each) => findSession(each, key)));
    expect(new Set(found.map(({ id }) => id)).size).toBe(1);
    expect(found[0]).toMatchObject({ name: 'default', userId: 'ada' });
    await here.gateway.sessions.end(found[0]?.id ?? '');
    expect((await findSession(here, key)).id).not.toBe(found[0]?.id);
  });

  test('chooses among the sessions of that user, and nothing else exists', async () => {
    const own = await serve();
    const [ada, eve] = [await createKeyFor(own, 'ada'), await createKeyFor(own, 'eve')];
    const mine = await own.open({ userId: 'ada', name: 'mine' });
    const theirs = await own.open({ userId: 'eve' });
    const ended = await own.open({ userId: 'ada' });
    await own.gateway.sessions.end(ended.id);
    const use = (id: unknown) => trySession(own, ada.key, { 'ambit/use-session': id });
    expect(await use(mine.id)).toMatchObject({ id: mine.id });
    for (const id of [theirs.id, ended.id, 'f'.repeat(32), 'mine', '', '../x']) {
      expect(await use(id)).toBe('!SESSION_NOT_FOUND');
    }
    for (const id of [7, null, { id: mine.id }]) expect(await use(id)).toBe('!REQUEST_INVALID');
    expect(await trySession(own, eve.key, { 'ambit/use-session': theirs.id })).toMatchObject({ id: theirs.id });
  });

  test('gets a session for each conversation its host names', async () => {
    const own = await serve();
    const [ada, eve] = [await createKeyFor(own, 'ada'), await createKeyFor(own, 'eve')];
    const one = await findSession(own, ada.key, { 'openai/session': 'conversation-one' });
    expect((await findSession(own, ada.key, { 'openai/session': 'conversation-one' })).id).toBe(one.id);
    const others = [
      await findSession(own, ada.key),
      await findSession(own, ada.key, { 'openai/session': 'conversation-two' }),
      await findSession(own, ada.key, { sessionID: 'conversation-one' }),
      await findSession(own, eve.key, { 'openai/session': 'conversation-one' }),
    ];
    expect(new Set([one, ...others].map(({ id }) => id)).size).toBe(5);
    expect(others.map(({ userId }) => userId)).toEqual(['ada', 'ada', 'ada', 'eve']);
    expect(JSON.stringify([one, ...others])).not.toContain('conversation-one');
    // What names a session outright goes before.
    const meta = { 'ambit/use-session': others[0]?.id, 'openai/session': 'conversation-one' };
    expect((await findSession(own, ada.key, meta)).id).toBe(others[0]?.id);
  });

  test('lists vary with the credential only: what any session of the user could use, within the ceiling', async () => {
    const { url } = upstream;
    const servers = { it: { url, trust: ['direct', 'sandboxed'] }, only: { url, trust: 'direct' } };
    const own = await serve({ servers, sessions: { defaultTrust: 'sandboxed', allowDirect: 'always' } });
    const [wide, narrow] = [
      await createKeyFor(own, 'ada'),
      await createKeyFor(own, 'ada', { trustLevel: 'sandboxed' }),
    ];
    const both = ['it__more', 'it__say'];
    const ofServers = (names: string[]) => names.filter((name) => name.includes('__'));
    const lists = async (key: string, meta = {}) => ofServers(await listToolsFor(own.mcp(), key, meta));
    expect(await lists(wide.key)).toEqual(both);
    expect(await listToolsFor(own.mcp('only'), wide.key)).toEqual([]);
    const direct = await own.open({ userId: 'ada', trustLevel: 'direct' });
    const bare = await own.open({ userId: 'ada', servers: [] });
    const before = await own.gateway.sessions.record(direct.id);
    const all = [...both, 'only__more', 'only__say'];
    for (const meta of [{}, { 'ambit/use-session': bare.id }, { sessionID: 'x' }, { 'ambit/use-session': 'none' }]) {
      expect(await lists(wide.key, meta)).toEqual(all);
      expect(await lists(narrow.key, meta)).toEqual(both);
    }
    expect(await listToolsFor(own.mcp('only'), wide.key)).toEqual(['more', 'say']);
    expect(await listToolsFor(own.mcp('only'), narrow.key)).toEqual([]);
    const whole = await post(
      own.mcp('only'),
      wide.key,
      JSON.stringify(modernRequest(1, 'tools/list')),
      modernHeaders('tools/list'),
    );
    expect(whole.text).toContain('9007199254740993');
    expect(whole.text).not.toContain('nextCursor');
    // To look is no use.
    expect((await own.gateway.sessions.record(direct.id))?.lastActiveAt).toBe(before?.lastActiveAt);
    expect(readOutcome(await callModern(own.mcp('only'), wide.key, 'say'))).toBe('!SERVER_NOT_AVAILABLE');
    const meta = { 'ambit/use-session': direct.id };
    expect(readOutcome(await callModern(own.mcp('only'), wide.key, 'say', {}, { meta }))).toBe('right');
  });
});

describe('no key goes above its ceiling', () => {
  test('the default trust is lowered to it, and it does not use what a wider key has opened', async () => {
    const own = await serve();
    const [wide, narrow] = [
      await createKeyFor(own, 'ada'),
      await createKeyFor(own, 'ada', { trustLevel: 'sandboxed' }),
    ];
    const direct = await findSession(own, wide.key);
    expect(direct.trustLevel).toBe('direct');
    const sandboxed = await findSession(own, narrow.key);
    expect(sandboxed).toMatchObject({ trustLevel: 'sandboxed', userId: 'ada' });
    expect(await trySession(own, narrow.key, { 'ambit/use-session': direct.id })).toBe('!SESSION_NOT_FOUND');
    expect(await trySession(own, wide.key, { 'ambit/use-session': sandboxed.id })).toMatchObject({
      id: sandboxed.id,
    });
    for (const reference of [direct.id, direct.id.slice(0, 12), 'default']) {
      expect(await trySession(own, narrow.key, {}, reference)).toBe('!SESSION_NOT_FOUND');
    }
    expect(await trySession(own, wide.key, {}, sandboxed.id)).toMatchObject({ id: sandboxed.id });
    const listed = await callModern(own.mcp('ambit'), narrow.key, 'session_list', { session: 'current' });
    expect(listed.text).toContain(sandboxed.id);
    expect(listed.text).not.toContain(direct.id);
  });

  test('it stands in its workspaces, and nowhere else exists for it', async () => {
    const own = await serve();
    const shop = await createKeyFor(own, 'ada', { workspaces: ['shop'] });
    const both = await createKeyFor(own, 'ada', { workspaces: ['yard', 'shop'] });
    expect(await findSession(own, shop.key)).toMatchObject({ workspaceId: 'shop' });
    expect(await findSession(own, both.key)).toMatchObject({ workspaceId: 'yard' });
    const announcing = (name: string) => ({ 'ambit.workspace': name });
    expect(await findSession(own, both.key, announcing('shop'))).toMatchObject({ workspaceId: 'shop' });
    // It stays within its workspaces, but nothing works in another one than the announced one.
    const said: string[] = [];
    for (const name of ['yard', 'nowhere', '/', join(data.folder, 'yard')]) {
      const meta = announcing(name);
      const session = await trySession(own, shop.key, meta);
      expect(session).toMatchObject({ workspaceId: 'shop' });
      const { id } = session as { id: string };
      // Whatever the call names its own session.
      for (const reference of ['current', id, id.slice(0, 12), id.toUpperCase()]) {
        const args = { session: reference };
        const { text } = await callModern(own.mcp('ambit'), shop.key, 'session_list_dir', args, { meta });
        said.push(text.replaceAll(JSON.stringify(JSON.stringify(name)).slice(1, -1), 'NAME'));
      }
      for (const [url, tool] of [
        [own.mcp('it'), 'say'],
        [own.mcp(), 'it__say'],
      ] as const) {
        said.push((await callModern(url, shop.key, tool, {}, { meta })).text.replaceAll(`\\"${name}\\"`, 'NAME'));
        expect(await listToolsFor(url, shop.key, meta)).toContain(tool);
      }
      const client = await openClient(own.mcp(), shop.key, {}, meta);
      expect(readOutcome(await client.call('it__say'))).toBe('!WORKSPACE_NOT_FOUND');
      expect(readOutcome(await client.call('session_list_dir', { session: 'current' }))).toBe('!WORKSPACE_NOT_FOUND');
      expect(readSession(await client.call('session_info', { session: 'current' }))).toMatchObject({ userId: 'ada' });
    }
    // The error for a tool that takes a session, and that for any other.
    expect(new Set(said).size).toBe(2);
    for (const each of said) {
      expect(each).toMatch(
        /WORKSPACE_NOT_FOUND: The client announced the workspace NAME, .*: \\"shop\\"\..*"isError":true/,
      );
      expect(each).not.toContain('yard');
    }
    const [inYard, nowhere] = [
      await own.open({ userId: 'ada', workspaceId: 'yard' }),
      await own.open({ userId: 'ada' }),
    ];
    for (const { id } of [inYard, nowhere]) {
      expect(await trySession(own, shop.key, { 'ambit/use-session': id })).toBe('!SESSION_NOT_FOUND');
      expect(await trySession(own, shop.key, {}, id)).toBe('!SESSION_NOT_FOUND');
    }
  });

  test('its sessions hold its scopes, and those with more are beyond it', async () => {
    const own = await serve();
    const writer = await createKeyFor(own, 'ada', { scopes: ['notes:write'] });
    const { id } = await findSession(own, writer.key);
    expect(own.gateway.sessions.get(id)?.permissions).toEqual(['notes:write']);
    const more = await own.open({ userId: 'ada', permissions: ['notes:write', 'notes:delete'] });
    expect(await trySession(own, writer.key, { 'ambit/use-session': more.id })).toBe('!SESSION_NOT_FOUND');
  });

  test('what is asked for above it is refused', async () => {
    const { openSession } = await import('../../../src/sessions/open-session.ts');
    const own = await serve();
    const { sessions, config: settings } = own.gateway;
    const ceiling = { trustLevel: 'sandboxed', workspaces: ['shop'], scopes: ['a'] } as const;
    for (const [asked, code] of [
      [{ workspaceId: 'shop', trustLevel: 'direct' }, 'TRUST_REQUIRED'],
      [{ workspaceId: 'yard' }, 'WORKSPACE_NOT_FOUND'],
      [{}, 'WORKSPACE_NOT_FOUND'],
      [{ workspaceId: 'shop', permissions: ['b'] }, 'REQUEST_INVALID'],
    ] as const) {
      await expect(openSession(sessions, settings, asked, { ceiling })).rejects.toMatchObject({ code });
    }
    const { session } = await openSession(sessions, settings, { workspaceId: 'shop' }, { ceiling });
    expect(session).toMatchObject({ trustLevel: 'sandboxed', workspaceId: 'shop' });
  });

  test('direct sessions are refused once keys of several users exist, unless always allowed', async () => {
    const own = await serve({ sessions: { allowDirect: 'auto' } });
    const direct = () => own.open({ trustLevel: 'direct' });
    const { id } = await createKeyFor(own, 'ada');
    await direct();
    await createKeyFor(own, 'eve');
    await expect(direct()).rejects.toMatchObject({
      code: 'TRUST_REQUIRED',
      rule: 'sessions.allowDirect',
      message: expect.stringContaining('more than one user'),
    });
    expect(own.gateway.sessions.get((await own.open()).id)?.trustLevel).toBe('sandboxed');
    await own.gateway.people.keys.revoke(id);
    await direct();
  });
});
