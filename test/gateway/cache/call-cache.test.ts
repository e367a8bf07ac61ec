import { describe, expect, onTestFinished, test } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import type { SessionDraft } from '../../../src/sessions/session.ts';
import { openBoundedGateway } from '../bounded-gateway.ts';
import { type EchoingUpstream, startEchoUpstream } from '../echoing-upstream.ts';
import { createRawClient } from '../raw-client.ts';

const on = openBoundedGateway();
const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const ttlSeconds = 60;

interface Counting extends EchoingUpstream {
  /** How often a tool was called. */
  calls: number;
  description: string;
  result: (meta: Record<string, unknown>) => object | Promise<object>;
}

/** A server that says how often it was called, or what it is told to. */
async function counting(): Promise<Counting> {
  const upstream: Counting = Object.assign(
    await startEchoUpstream(async (method, params) => {
      const { description } = upstream;
      if (method === 'tools/list') {
        const tools = ['read', 'write'].map((name) => ({ name, description, inputSchema: { type: 'object' } }));
        return { ...hints, tools };
      }
      if (method !== 'tools/call') return undefined;
      upstream.calls++;
      const meta = (params['_meta'] ?? {}) as Record<string, unknown>;
      const answer = await upstream.result(meta);
      return { resultType: 'complete', content: [{ type: 'text', text: String(upstream.calls) }], ...answer };
    }),
    { calls: 0, description: 'first', result: () => ({}) },
  );
  onTestFinished(upstream.close);
  return upstream;
}

async function start({ url }: EchoingUpstream, era: 'modern' | 'handshake' = 'modern'): Promise<EmbeddedGateway> {
  await on.start(era, { servers: { notes: { url, era, cache: { read: { ttlSeconds } } } } });
  return on.gateway;
}

async function clientOf(draft: SessionDraft, server?: string, era: 'modern' | 'handshake' = 'modern') {
  const session = await on.gateway.createSession(draft);
  return { ...(await on.connect(session.id, era, server)), session };
}

describe.each(['modern', 'handshake'] as const)('in the %s era', (era) => {
  test.each([undefined, 'notes'])(
    'L7: a result is given again to its session, at %s, and to no other',
    async (server) => {
      const upstream = await counting();
      await start(upstream);
      const tool = server === undefined ? 'notes__read' : 'read';
      const [one, other] = [
        await clientOf({ userId: 'ada' }, server, era),
        await clientOf({ userId: 'ada' }, server, era),
      ];
      expect(await one.call(tool, { a: 1, b: 2 })).toBe('1');
      expect(await one.call(tool, { b: 2, a: 1.0 })).toBe('1');
      expect(await other.call(tool, { a: 1, b: 2 })).toBe('2');
      expect(await one.call(tool, { a: 1, b: 3 })).toBe('3');
      expect(await one.call(tool.replace('read', 'write'), { a: 1, b: 2 })).toBe('4');
      expect(await one.call(tool.replace('read', 'write'), { a: 1, b: 2 })).toBe('5');
      expect(await one.call(tool, { a: 1, b: 2 })).toBe('1');
      const calls = ({ session }: typeof one) => on.journal(session.id).filter(({ name }) => name === tool);
      await expect.poll(() => [calls(one).length, calls(other).length]).toEqual([4, 1]);
      const [first] = calls(one);
      expect(calls(one).map(({ cached }) => cached)).toEqual([undefined, first?.['id'], undefined, first?.['id']]);
      expect(calls(other)[0]?.['cached']).toBeUndefined();
    },
  );

  test('of many who ask the same at once, one goes; they get the same', async () => {
    const upstream = await counting();
    let release = () => {};
    const held = new Promise<object>((resolve) => {
      release = () => resolve({});
    });
    upstream.result = () => held;
    await start(upstream);
    const client = await clientOf({ userId: 'ada' }, 'notes', era);
    const asked = Array.from({ length: 10 }, () => client.call('read', { same: true }));
    const another = client.call('read', { same: false });
    while (upstream.calls < 2) await new Promise((resolve) => setImmediate(resolve));
    release();
    expect(new Set(await Promise.all(asked)).size).toBe(1);
    await another;
    expect(upstream.calls).toBe(2);
  });
});

test('when the one that went is cancelled, those who waited go themselves', async () => {
  const upstream = await counting();
  const releases: (() => void)[] = [];
  upstream.result = () => new Promise((resolve) => releases.push(() => resolve({})));
  await start(upstream);
  const client = await clientOf({ userId: 'ada' }, 'notes');
  void client.request('tools/call', { name: 'read', arguments: {} });
  while (releases.length < 1) await new Promise((resolve) => setImmediate(resolve));
  const waiting = client.call('read');
  client.send({ method: 'notifications/cancelled', params: { requestId: 1 } });
  while (releases.length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const release of releases) release();
  expect(await waiting).toBe('2');
  expect(await client.call('read')).toBe('2');
});

test.each<[string, object]>([
  ['an error', { isError: true }],
  ['a question', { resultType: 'input_required', content: undefined, inputRequests: {}, requestState: 's' }],
  ['what the server wants nobody to keep', { ttlMs: 0, cacheScope: 'private' }],
])('%s is never given again', async (_what, result) => {
  const upstream = await counting();
  upstream.result = () => result;
  await start(upstream);
  const client = await clientOf({ userId: 'ada' }, 'notes');
  for (let round = 1; round <= 2; round++) {
    await client.request('tools/call', { name: 'read', arguments: {} });
    expect(upstream.calls).toBe(round);
  }
});

test('calls that say what two readers could read differently are not answered from before', async () => {
  const upstream = await counting();
  await start(upstream);
  const client = await clientOf({ userId: 'ada' }, 'notes');
  expect(await client.call('read', { a: 1 })).toBe('1');
  const { result } = await client.request('tools/call', { name: 'read', arguments: { a: 1 }, _meta: { tenant: 'x' } });
  expect(JSON.stringify(result)).toContain('"2"');
  const answers = ['x', 'x'].map(() => client.request('tools/call', { name: 'read', arguments: {}, more: 1 }));
  await Promise.all(answers);
  expect(upstream.calls).toBe(4);
});

test('what was said on the way to a result cannot be said again, so that result is not kept', async () => {
  const upstream = await counting();
  upstream.result = ({ progressToken }) =>
    progressToken === undefined
      ? {}
      : { saysFirst: [{ method: 'notifications/progress', params: { progressToken, progress: 1 } }] };
  await start(upstream);
  const client = await clientOf({ userId: 'ada' }, 'notes');
  const watched = { name: 'read', arguments: {}, _meta: { progressToken: 'mine' } };
  for (let round = 1; round <= 2; round++) {
    await client.request('tools/call', watched);
    expect(upstream.calls).toBe(round);
    expect(client.heard).toHaveLength(round);
  }
  // What was brought in silence is given to those who would have listened, too.
  expect(await client.call('read')).toBe('3');
  await client.request('tools/call', watched);
  expect(upstream.calls).toBe(3);
});

test('what a person was asked for is not kept for the next', async () => {
  const question = { mode: 'form', message: 'Which?', requestedSchema: { type: 'object', properties: {} } };
  let calls = 0;
  const upstream = await startEchoUpstream((method) => {
    const serverInfo = { name: 'asking', version: '1' };
    if (method === 'initialize') return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
    if (method === 'tools/list') return { tools: [{ name: 'read', inputSchema: { type: 'object' } }] };
    if (method !== 'tools/call') return undefined;
    calls++;
    const asks = { id: 99, method: 'elicitation/create', params: question };
    return { content: [{ type: 'text', text: String(calls) }], saysFirst: [asks] };
  });
  onTestFinished(upstream.close);
  const gateway = await start(upstream, 'handshake');
  const session = await gateway.createSession({ userId: 'ada' });
  const capabilities = { elicitation: {} };
  const client = await createRawClient(gateway.connect(session.id, 'notes'), 'handshake', { capabilities });
  onTestFinished(client.close);
  expect([await client.call('read'), await client.call('read')]).toEqual(['1', '2']);
  expect(client.heard.map(({ method }) => method)).toEqual(['elicitation/create', 'elicitation/create']);
});

describe('what was kept is gone', () => {
  test('with its session, and when that is narrowed', async () => {
    const upstream = await counting();
    const gateway = await start(upstream);
    const client = await clientOf({ userId: 'ada', permissions: ['a'] }, 'notes');
    expect(await client.call('read')).toBe('1');
    await gateway.restrictSession(client.session.id, { permissions: [] });
    expect(await client.call('read')).toBe('2');
    expect(await client.call('read')).toBe('2');
    await gateway.endSession(client.session.id);
    expect(await client.call('read')).not.toMatch(/^\d/);
    expect(upstream.calls).toBe(2);
  });

  test('with the rules it was fetched under: what is denied now is not answered from before', async () => {
    const upstream = await counting();
    const gateway = await start(upstream);
    const client = await clientOf({ userId: 'ada' }, 'notes');
    expect(await client.call('read', { path: 'prod' })).toBe('1');
    expect(await client.call('read', { path: 'test' })).toBe('2');
    const servers = { notes: { url: upstream.url, era: 'modern' as const, cache: { read: { ttlSeconds } } } };
    const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const }, servers };
    const rule = { id: 'no-prod', deny: 'notes__read', when: "args.path == 'prod'" };
    await gateway.reload({ ...config, rules: [rule] });
    expect(await client.call('read', { path: 'prod' })).toContain('PERMISSION_DENIED');
    expect(await client.call('read', { path: 'test' })).toBe('3');
    await gateway.reload(config);
    expect(await client.call('read', { path: 'prod' })).toBe('1');
    await gateway.reload({ ...config, servers: { notes: { ...servers.notes, cache: {} } } });
    expect(await client.call('read', { path: 'prod' })).toBe('4');
  });

  test('when the tool is described otherwise', async () => {
    const upstream = await counting();
    const gateway = await start(upstream);
    const client = await clientOf({ userId: 'ada' }, 'notes');
    expect(await client.call('read')).toBe('1');
    upstream.description = 'second';
    const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const } };
    const notes = { url: upstream.url, era: 'modern' as const, cache: { read: { ttlSeconds } } };
    // Described anew and back again: what the server offers is asked for once more.
    await gateway.reload({ ...config, servers: { notes: { ...notes, timeoutSeconds: 5 } } });
    await gateway.reload({ ...config, servers: { notes } });
    expect(await client.call('read')).toBe('2');
  });
});
