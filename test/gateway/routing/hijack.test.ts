import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { maxMarks } from '../../../src/stores/state.ts';
import { startUpstream, type Upstream } from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import {
  callModern,
  initializeRequest,
  modernHeaders,
  modernRequest,
  openClient,
  readOutcome,
} from '../../journeys/json-mcp-client.ts';
import { createSharedData } from '../shared-data.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream({});
});
afterAll(() => upstream.stop());

const data = createSharedData();
const config = () => ({ servers: { it: { url: upstream.url } } });

interface Heard {
  readonly status: number;
  readonly code: string | undefined;
  readonly transportId: string | undefined;
}

/** One message from a certain address of this machine. */
async function from(
  localAddress: string,
  url: string,
  headers: Record<string, string>,
  body?: unknown,
  method = 'POST',
): Promise<Heard> {
  const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
  return new Promise((resolve, reject) => {
    const asking = request(url, { method, localAddress, headers: all, agent: false }, async (response) => {
      const said = await text(response);
      resolve({
        status: response.statusCode ?? 0,
        code: /"code":"(\w+)"/.exec(said)?.[1],
        transportId: response.headers['mcp-session-id'] as string | undefined,
      });
    });
    asking.on('error', reject);
    asking.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const modernCall = (localAddress: string, url: string, token: string) =>
  from(
    localAddress,
    url,
    { authorization: `Bearer ${token}`, ...modernHeaders('tools/call', 'say') },
    modernRequest(1, 'tools/call', { name: 'say', arguments: {} }),
  );

describe('L12: a session belongs to whoever proves it', () => {
  test('the token of one with the transport session of another is 404, for every kind of request', async () => {
    const own = await data.serve(config());
    const [mine, theirs] = [await own.open(), await own.open()];
    const victim = await openClient(own.mcp('it'), theirs.token);
    const headers = { authorization: `Bearer ${mine.token}`, ...victim.headers };
    for (const message of [
      { id: 1, method: 'tools/call', params: { name: 'say', arguments: {} } },
      { id: 2, method: 'ping' },
      { id: 3, result: {} },
      { method: 'notifications/cancelled', params: { requestId: 1 } },
      { ...initializeRequest(), id: 4 },
    ]) {
      expect((await from('127.0.0.1', own.mcp('it'), headers, { jsonrpc: '2.0', ...message })).status).toBe(404);
    }
    for (const method of ['GET', 'DELETE']) {
      expect((await from('127.0.0.1', own.mcp('it'), headers, undefined, method)).status).toBe(404);
    }
    expect(readOutcome(await victim.call('say'))).toBe('right');
  });

  test('what a request says about another session selects nothing', async () => {
    const own = await data.serve(config());
    const [mine, theirs] = [await own.open(), await own.open({ userId: 'someone-else' })];
    const meta = { 'ambit/use-session': theirs.id, 'ambit/session': { sessionId: theirs.id } };
    const args = { session: theirs.id, sessionId: theirs.id };
    expect(readOutcome(await callModern(own.mcp('it'), mine.token, 'say', args, { meta }))).toBe('right');
    const told = upstream.asked.at(-1)?.params as { _meta?: Record<string, unknown> } | undefined;
    expect(JSON.stringify(told?._meta)).not.toContain(theirs.id);
    await own.close();
    const calls = data.journal().filter((entry) => entry['method'] === 'tools/call');
    expect(calls.map((entry) => entry['sessionId'])).toEqual([mine.id]);
  });
});

describe('L12: with sessions.bindAddress', () => {
  const bound = () => ({ ...config(), sessions: { bindAddress: true } });

  test('only the address that used a session first may go on, in every process and after a restart', async () => {
    const [one, two] = [await data.serve(bound()), await data.serve(bound())];
    const { id, token } = await one.open();
    expect((await modernCall('127.0.0.1', one.mcp('it'), token)).status).toBe(200);
    for (const each of [one, two]) {
      expect(await modernCall('127.0.0.2', each.mcp('it'), token)).toMatchObject({ code: 'UNAUTHENTICATED' });
      expect((await modernCall('127.0.0.1', each.mcp('it'), token)).code).toBeUndefined();
    }
    await Promise.all([one.close(), two.close()]);
    const after = await data.serve(bound());
    expect(await modernCall('127.0.0.2', after.mcp('it'), token)).toMatchObject({ code: 'UNAUTHENTICATED' });
    expect((await modernCall('127.0.0.1', after.mcp('it'), token)).code).toBeUndefined();
    await after.close();
    const refused = data.journal().filter((entry) => entry['rule'] === 'sessions.bindAddress');
    expect(refused).toHaveLength(3);
    expect(refused[0]).toMatchObject({ outcome: 'UNAUTHENTICATED', sessionId: id, method: 'tools/call' });
    expect(JSON.stringify(data.journal())).not.toContain('127.0.0.2');
  });

  test('a stream or a goodbye from elsewhere is refused as well, and the same session can be narrowed', async () => {
    const own = await data.serve(bound());
    const { id, token } = await own.open();
    const client = await openClient(own.mcp('it'), token);
    const headers = { authorization: `Bearer ${token}`, ...client.headers };
    for (const method of ['GET', 'DELETE']) {
      expect((await from('127.0.0.2', own.mcp('it'), headers, undefined, method)).status).toBe(401);
    }
    await own.gateway.restrictSession(id, { ttlSeconds: 60 });
    expect(readOutcome(await client.call('say'))).toBe('right');
    expect((await modernCall('127.0.0.2', own.mcp('it'), token)).code).toBe('UNAUTHENTICATED');
  });

  test('of two addresses that come at once, one is let in', async () => {
    const own = await data.serve(bound());
    const { token } = await own.open();
    const heard = await Promise.all(
      Array.from({ length: 8 }, (_, at) => modernCall(`127.0.0.${1 + (at % 2)}`, own.mcp('it'), token)),
    );
    const codes = [0, 1].map((parity) => new Set(heard.filter((_, at) => at % 2 === parity).map(({ code }) => code)));
    expect(codes.map((each) => each.size)).toEqual([1, 1]);
    expect(codes.flatMap((each) => [...each]).sort()).toEqual(['UNAUTHENTICATED', undefined]);
  });

  test('a session whose marks are full, so that no address can be written down, is closed to every address', async () => {
    const store = openMemoryStore();
    const own = await data.serve(bound(), { store });
    const { id, token } = await own.open();
    for (let n = 0; n < maxMarks; n++) await store.marks.put(id, `mark-${n}`, 'x');
    expect((await modernCall('127.0.0.1', own.mcp('it'), token)).code).toBe('UNAUTHENTICATED');
  });

  test('without it an address means nothing', async () => {
    const own = await data.serve(config());
    const { token } = await own.open();
    for (const address of ['127.0.0.1', '127.0.0.2']) {
      expect((await modernCall(address, own.mcp('it'), token)).code).toBeUndefined();
    }
  });
});
