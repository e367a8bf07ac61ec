import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import {
  answerCorrectly,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import {
  handshake,
  initializeRequest,
  openClient,
  type PostAnswer,
  post,
  readOutcome,
} from '../../journeys/json-mcp-client.ts';
import { createKeyFor } from '../keyed-gateway.ts';
import { createSharedData } from '../shared-data.ts';

let upstream: Upstream;
beforeAll(async () => {
  const said = { name: 'say', inputSchema: { type: 'object' } };
  upstream = await startUpstream(
    { say: ({ id, params }, response) => sendJson(response, answerCorrectly(id, String(params.arguments?.['words']))) },
    {
      'tools/list': ({ id }, response) =>
        sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { tools: [said] } })),
    },
  );
});
afterAll(() => upstream.stop());

const data = createSharedData();
const config = () => ({
  servers: { it: { url: upstream.url, era: 'handshake' as const }, other: { url: upstream.url } },
});
const headersOf = (transportId: string) => ({ 'mcp-session-id': transportId, 'mcp-protocol-version': handshake });

function say(url: string, token: string, transportId: string, words: string, tool = 'say'): Promise<PostAnswer> {
  const params = { name: tool, arguments: { words } };
  const message = { jsonrpc: '2.0', id: 5, method: 'tools/call', params };
  return post(url, token, JSON.stringify(message), headersOf(transportId));
}

describe('a handshake-era client', () => {
  test.each([
    ['one server', 'it', 'say'],
    ['all servers', undefined, 'it__say'],
  ])('goes on after a restart without a new handshake, with %s', async (_, server, tool) => {
    const before = await data.serve(config());
    const { token } = await before.open();
    const { transportId } = await openClient(before.mcp(server), token);
    expect(readOutcome(await say(before.mcp(server), token, transportId, 'one', tool))).toBe('one');
    await before.close();
    const after = await data.serve(config());
    // Together: however many notice it, it is introduced once.
    upstream.seen.length = 0;
    const said = await Promise.all(
      ['two', 'three'].map((words) => say(after.mcp(server), token, transportId, words, tool)),
    );
    expect(said.map(readOutcome)).toEqual(['two', 'three']);
    expect(upstream.seen.filter((line) => line === 'POST initialize')).toHaveLength(1);
    expect(upstream.seen).toContain('POST notifications/initialized');
    expect((await fetch(after.mcp(server), { method: 'DELETE', headers: auth(token, transportId) })).status).toBe(200);
  });

  test('L16: goes on in another process on the same store, while the first one still serves', async () => {
    const [one, two] = [await data.serve(config()), await data.serve(config())];
    const { token } = await one.open();
    const { transportId } = await openClient(one.mcp('it'), token);
    for (const [words, at] of [
      ['a', two],
      ['b', one],
      ['c', two],
    ] as const) {
      expect(readOutcome(await say(at.mcp('it'), token, transportId, words))).toBe(words);
    }
  });

  test('goes on when its session has made room for others meanwhile', async () => {
    const own = await data.serve({ ...config(), sessions: { maxSessions: 2 } });
    const { id, token } = await own.open();
    const { transportId } = await openClient(own.mcp('it'), token);
    for (let i = 0; i < 4; i++) await own.open({ userId: `u${i}` });
    expect(own.gateway.sessions.get(id)).toBeUndefined();
    expect(own.gateway.transportVersion(transportId)).toBeUndefined();
    expect(readOutcome(await say(own.mcp('it'), token, transportId, 'still here'))).toBe('still here');
  });

  test('stands where it stood, and its stream can be opened again', async () => {
    const path = join(data.folder, 'here');
    mkdirSync(path);
    const workspaces = { here: { path, env: {} }, there: { path } };
    const before = await data.serve({ ...config(), workspaces });
    const { token } = await before.open();
    const opening = initializeRequest();
    const params = { ...(opening['params'] as object), _meta: { ambit: { workspace: 'here' } } };
    const opened = await post(before.mcp('it'), token, JSON.stringify({ ...opening, params }));
    const transportId = opened.headers['mcp-session-id'] as string;
    await before.close();
    const after = await data.serve({ ...config(), workspaces });
    expect(readOutcome(await say(after.mcp('it'), token, transportId, 'x'))).toBe('x');
    const leaving = new AbortController();
    const stream = await fetch(after.mcp('it'), { headers: auth(token, transportId), signal: leaving.signal });
    expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    leaving.abort();
    await after.close();
    const call = data.journal().findLast((entry) => entry['method'] === 'tools/call');
    expect(call).toMatchObject({ outcome: 'ok', workspaceId: 'here' });
  });

  test('O3: works nowhere, if it announced a workspace that it may not use', async () => {
    const names = ['mine', 'theirs'];
    const workspaces = Object.fromEntries(
      names.map((name) => [name, { path: join(data.folder, name), create: true, capabilities: { servers: ['it'] } }]),
    );
    const servers = { it: { ...config().servers.it, trust: ['direct' as const, 'sandboxed' as const] } };
    const served = { servers, workspaces };
    const before = await data.serve(served);
    const { key } = await createKeyFor(before, 'ada', { workspaces: ['mine'] });
    const meta = { ambit: { workspace: 'theirs' } };
    const { transportId } = await openClient(before.mcp('it'), key, {}, meta);
    await before.close();
    const after = await data.serve(served);
    expect(readOutcome(await say(after.mcp('it'), key, transportId, 'x'))).toBe('!WORKSPACE_NOT_FOUND');
    const silent = await openClient(after.mcp('it'), key);
    expect(readOutcome(await silent.call('say', { words: 'x' }))).toMatch(/x$/);
  });
});

describe('L12: 404, and so a new handshake, for', () => {
  test('a session that is not the one that opened it', async () => {
    const before = await data.serve(config());
    const [mine, theirs] = [await before.open(), await before.open()];
    const { transportId } = await openClient(before.mcp('it'), mine.token);
    await before.close();
    const after = await data.serve(config());
    // Even in the very moment in which its owner is let in.
    const [own, foreign] = await Promise.all(
      [mine, theirs].map(({ token }) => say(after.mcp('it'), token, transportId, 'x')),
    );
    expect([own?.status, foreign?.status]).toEqual([200, 404]);
    for (const method of ['GET', 'DELETE']) {
      const { status } = await fetch(after.mcp('it'), { method, headers: auth(theirs.token, transportId) });
      expect(status).toBe(404);
    }
    expect((await say(after.mcp('it'), mine.token, transportId, 'x')).status).toBe(200);
  });

  test('another server than the one it was opened for, and ids nobody gave', async () => {
    const before = await data.serve(config());
    const { token } = await before.open();
    const { transportId } = await openClient(before.mcp('it'), token);
    await before.close();
    const after = await data.serve(config());
    expect((await say(after.mcp('other'), token, transportId, 'x')).status).toBe(404);
    const last = transportId.slice(-2);
    for (const id of ['x', '0'.repeat(34), `${'f'.repeat(32)}${last}`, `${transportId}0`, '__proto__', 'transport:1']) {
      expect((await say(after.mcp('it'), token, id, 'x')).status).toBe(404);
    }
  });

  test('one that said goodbye, whose session has ended, or whose words were too long to keep', async () => {
    const before = await data.serve(config());
    const { id, token } = await before.open();
    const gone = await openClient(before.mcp('it'), token);
    const kept = await openClient(before.mcp('it'), token);
    const large = await openClient(before.mcp('it'), token, { experimental: { long: { text: 'x'.repeat(4100) } } });
    await gone.leave();
    await before.close();
    const after = await data.serve(config());
    const status = async (client: { readonly transportId: string }) =>
      (await say(after.mcp('it'), token, client.transportId, 'x')).status;
    expect(await Promise.all([gone, kept, large].map(status))).toEqual([404, 200, 404]);
    await after.gateway.sessions.end(id);
    expect(readOutcome(await say(after.mcp('it'), token, kept.transportId, 'x'))).toBe('!SESSION_ENDED');
  });
});

test('however many clients a session has had, no more than 64 are written down', async () => {
  const own = await data.serve(config());
  const { id, token } = await own.open();
  const ids: string[] = [];
  for (let i = 0; i < 80; i++) {
    const opened = await post(own.mcp('it'), token, JSON.stringify(initializeRequest()));
    ids.push(opened.headers['mcp-session-id'] as string);
  }
  await own.close();
  const store = await openSqliteStore({ file: join(data.dataDir, 'sessions.db') });
  const marks = await Promise.all(Array.from({ length: 256 }, (_, seat) => store.marks.get(id, `transport:${seat}`)));
  const written = marks.flatMap((mark) => (mark === undefined ? [] : [(JSON.parse(mark) as { id: string }).id]));
  await store.close();
  expect(written.length).toBeLessThanOrEqual(64);
  expect(written).toContain(ids.at(-1));
  expect(new Set(written).size).toBe(written.length);
});

function auth(token: string, transportId: string): Record<string, string> {
  return { authorization: `Bearer ${token}`, accept: 'text/event-stream, application/json', ...headersOf(transportId) };
}
