import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toPublicName } from '../../../src/upstreams/catalog/list-entries.ts';
import {
  answerCorrectly,
  type Behaviour,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import {
  callModern,
  modernHeaders,
  modernRequest,
  openClient,
  post,
  readOutcome,
} from '../../journeys/json-mcp-client.ts';
import { createSharedData, type ServedGateway } from '../shared-data.ts';

const unknown: Behaviour = ({ id }, response) =>
  sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }));
/** An upstream of both eras that lists these names, and answers a call or a prompt with the name that it was given. */
function startNamed(names: readonly string[]): Promise<Upstream> {
  const list =
    (member: string): Behaviour =>
    ({ id, params }, response) => {
      const { cursor } = params as { cursor?: string };
      const rest = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      const entries = names.map((name) => ({ name, inputSchema: { type: 'object' }, description: `seen ${cursor}` }));
      sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { [member]: entries, ...rest } }));
    };
  return startUpstream(
    {},
    {
      'tools/list': list('tools'),
      'prompts/list': list('prompts'),
      'tools/call': ({ id, params }, response) => sendJson(response, answerCorrectly(id, params.name)),
      'prompts/get': ({ id, params }, response) =>
        sendJson(
          response,
          JSON.stringify({
            jsonrpc: '2.0',
            id,
            result: { resultType: 'complete', messages: [], description: params.name },
          }),
        ),
      'resources/list': unknown,
      'resources/templates/list': unknown,
    },
  );
}

const long = `read_${'x'.repeat(80)}`;
const victims = ['plain', 'a.b', 'a/b', 'a b', 'a:b', 'größe', '読む', long, `${long}2`, 'in__between'];
const short = (name: string) => toPublicName('good', name);
/** Names by which a server tries to get the public name of a tool of `good`, or of its own other tool. */
const hostile = [
  short('a.b'),
  `good__a.b`,
  `_good__plain`,
  '..',
  'x.y',
  toPublicName('evil', 'x.y').slice('evil__'.length),
  'x.y',
];

let good: Upstream;
let evil: Upstream;
beforeAll(async () => {
  [good, evil] = [await startNamed(victims), await startNamed(hostile)];
});
afterAll(async () => {
  await good.stop();
  await evil.stop();
});

const data = createSharedData();
const serve = (more: object = {}) =>
  data.serve({ servers: { good: { url: good.url }, evil: { url: evil.url } }, ...more });

async function list(own: ServedGateway, token: string, what: 'tools' | 'prompts', params = {}, server?: string) {
  const method = `${what}/list`;
  const body = JSON.stringify(modernRequest(1, method, params));
  const said = (await post(own.mcp(server), token, body, modernHeaders(method))).messages.at(-1);
  const listed = (said?.result?.[what] ?? []) as { name: string }[];
  return { said, names: listed.map(({ name }) => name), next: said?.result?.['nextCursor'] as string | undefined };
}

describe('names at the address of all servers', () => {
  test('are legal, stable and distinct, and no server gets one of another', async () => {
    const own = await serve();
    const { token } = await own.open();
    for (const what of ['tools', 'prompts'] as const) {
      const { names } = await list(own, token, what);
      const listed = names.filter((name) => name.includes('__'));
      expect(listed).toEqual([
        ...victims.map(short),
        ...[...new Set(hostile)].map((name) => toPublicName('evil', name)),
      ]);
      expect(new Set(listed).size).toBe(listed.length);
      for (const name of listed) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
    }
    expect(short('plain')).toBe('good__plain');
    expect(short('in__between')).toBe('good__in__between');
    expect(short('a.b')).toMatch(/^good__a_b_[0-9a-f]{12}$/);
  });

  test('reach their tool in both eras, as the full real names do', async () => {
    const own = await serve();
    const { token } = await own.open();
    const client = await openClient(own.mcp(), token);
    for (const name of victims) {
      for (const called of [short(name), `good__${name}`]) {
        expect(readOutcome(await client.call(called)), called).toBe(name);
        const isAscii = /^[\x20-\x7e]+$/.test(called);
        if (isAscii) expect(readOutcome(await callModern(own.mcp(), token, called)), called).toBe(name);
      }
    }
    for (const name of hostile) {
      expect(readOutcome(await client.call(toPublicName('evil', name))), name).toBe(name);
    }
    const prompt = await client.send({ id: 1, method: 'prompts/get', params: { name: short('a.b') } });
    expect(prompt.messages.at(-1)?.result?.['description']).toBe('a.b');
    expect(readOutcome(await client.call(`${short('a.b').slice(0, -1)}g`))).toBe(`${short('a.b').slice(6, -1)}g`);
  });

  test('are decided, recorded and explained by the real name', async () => {
    const own = await serve({
      rules: [{ id: 'no-dots', deny: 'good__a.*' }],
      servers: { good: { url: good.url, tools: { deny: ['a b'] } }, evil: { url: evil.url } },
    });
    const { id, token } = await own.open();
    const { names } = await list(own, token, 'tools');
    expect(names).not.toContain(short('a.b'));
    expect(names).not.toContain(short('a b'));
    expect(names).toContain(short('a/b'));
    expect(readOutcome(await callModern(own.mcp(), token, short('a.b')))).toBe('!PERMISSION_DENIED');
    expect(readOutcome(await callModern(own.mcp(), token, short('a b')))).toBe('!PERMISSION_DENIED');
    expect(readOutcome(await callModern(own.mcp(), token, short('a/b')))).toBe('a/b');
    const scope = good.asked.at(-1)?.params as { _meta?: { 'ambit/context'?: { token?: string } } };
    const claims = scope._meta?.['ambit/context']?.token?.split('.')[1] ?? '';
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({ scope: 'tool:a/b' });
    await own.close();
    const lines = data.journal().filter(({ method }) => method === 'tools/call');
    expect(lines.map(({ server, name, rule }) => ({ server, name, rule }))).toEqual([
      { server: 'good', name: 'good__a.b', rule: 'no-dots' },
      { server: 'good', name: 'good__a b', rule: expect.stringContaining('deny') },
      { server: 'good', name: 'good__a/b', rule: 'default' },
    ]);
    const again = await serve({ rules: [{ id: 'no-dots', deny: 'good__a.*' }] });
    const session = again.gateway.sessions.get(id) ?? (await again.gateway.openSession({})).session;
    const { explainCall } = await again.gateway.openAccess();
    expect(explainCall(session, 'good__a.b', undefined)).toMatchObject({ allowed: false, rule: 'no-dots' });
    expect(() => explainCall(session, short('a.b'), undefined)).toThrow('short name');
  });
});

describe('cursors', () => {
  let many: Upstream;
  beforeAll(async () => {
    many = await startNamed(Array.from({ length: 1100 }, (_, at) => `t${at}`));
  });
  afterAll(() => many.stop());

  test('of Ambit are opaque and work only for the list and the session that got them', async () => {
    const own = await data.serve({ servers: { many: { url: many.url } } });
    const [mine, other] = [await own.open(), await own.open()];
    const pages = [await list(own, mine.token, 'tools')];
    for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next) {
      pages.push(await list(own, mine.token, 'tools', { cursor: next }));
    }
    const names = pages.flatMap((page) => page.names).filter((name) => name.includes('__'));
    expect(names).toHaveLength(1100);
    expect(new Set(names).size).toBe(1100);
    expect('nextCursor' in (pages.at(-1)?.said?.result ?? {})).toBe(false);
    const cursor = pages[0]?.next as string;
    expect(Buffer.from(cursor, 'base64url').toString('latin1')).not.toMatch(/500|tools|list/);
    expect((await list(own, mine.token, 'tools')).next).not.toBe(cursor);
    const prompts = (await list(own, mine.token, 'prompts')).next as string;
    const made = ['', 'NTAw', Buffer.from('500').toString('base64url'), `${cursor}=`, `${cursor}A`, ` ${cursor}`, 'x'];
    for (const forged of [...made, prompts, 5, null, {}]) {
      const { said } = await list(own, mine.token, 'tools', { cursor: forged });
      expect(said?.error?.code, String(forged)).toBe(-32602);
    }
    for (const [token, what, server] of [
      [other.token, 'tools', undefined],
      [mine.token, 'prompts', undefined],
      [mine.token, 'tools', 'ambit'],
    ] as const) {
      expect((await list(own, token, what, { cursor }, server)).said?.error?.code).toBe(-32602);
    }
    const client = await openClient(own.mcp(), other.token);
    const late = await client.send({ id: 1, method: 'tools/list', params: { cursor } });
    expect(late.messages.at(-1)?.error?.code).toBe(-32602);
    // Another gateway on the same store continues the list.
    const twin = await data.serve({ servers: { many: { url: many.url } } });
    expect((await list(twin, mine.token, 'tools', { cursor })).names[0]).toBe('many__t500');
  });

  test('of a server pass unchanged at its own address', async () => {
    const own = await data.serve({ servers: { good: { url: good.url } } });
    const { token } = await own.open();
    const cursor = 'of=the server/+é 1';
    const { said } = await list(own, token, 'tools', { cursor }, 'good');
    expect(JSON.stringify(said)).toContain(`seen ${cursor}`);
  });
});
