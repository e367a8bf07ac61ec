import { createPublicKey, verify } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { afterEach, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { createServerSessions, type ServerSessionsOptions } from '../../../src/public/server/index.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { buildServer } from './build-server.ts';
import { connectHttp, connectPipe, createAuth, serveSessions, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const governance = {
  policies: [
    { name: 'require-tests', text: 'All code changes must include tests.' },
    { name: 'team', text: 'Ask Bo.', scope: 'team:core', mode: 'append' as const },
  ],
  objectives: [{ text: 'Be done by noon', scope: 'user:ada' }],
  teamsOf: (userId: string) => (userId === 'ada' ? ['core'] : []),
};

function sessionsWith(options: ServerSessionsOptions = {}) {
  const sessions = createServerSessions({ tools: true, ...options, context: { env: {} } });
  open.push(sessions);
  return sessions;
}

interface Callable {
  readonly client: { callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown> };
}

async function textsOf({ client }: Callable, name = 'whoami', args = {}): Promise<string[]> {
  const { content } = (await client.callTool({ name, arguments: args })) as { content: { text: string }[] };
  return content.map(({ text }) => text);
}

test.each(['v1', 'v2'] as const)(
  'G1: a server without Ambit adds the policy block to the first result (SDK %s)',
  async (sdk) => {
    const caller = await connectPipe(sdk, sessionsWith({ governance, local: { userId: 'ada' } }));
    open.push(caller);
    const [block = '', ...rest] = await textsOf(caller);
    expect(block.split('\n')).toEqual([
      headerLine,
      '',
      'Policies:',
      '  - [prepend] require-tests: All code changes must include tests. (inherited)',
      '  - [append] team: Ask Bo. (inherited)',
      '',
      'Objectives:',
      '  - Be done by noon',
      '',
      '═'.repeat(39),
    ]);
    expect(rest).toHaveLength(1);
    expect(await textsOf(caller)).toHaveLength(1);
    expect(await textsOf(caller, 'session_context', { session: 'current' })).toEqual([block]);
  },
);

test('G1: each user gets their own policies once per session, over HTTP and over several servers', async () => {
  const store = openMemoryStore();
  const principal: ServerSessionsOptions['principal'] = (auth) => auth && { userId: String(auth.extra?.['user']) };
  const here = () => serveStateless(sessionsWith({ governance, store, principal }));
  const told: number[] = [];
  for (const user of ['ada', 'bob', 'ada']) {
    const caller = await connectHttp(here(), 'modern', createAuth(user));
    open.push(caller);
    const texts = await textsOf(caller);
    expect(texts.some((text) => text.includes('Be done by noon'))).toBe(user === 'ada');
    for (const each of [texts, await textsOf(caller)])
      told.push(each.filter((text) => text.startsWith(headerLine)).length);
  }
  // The second connection of ada gets it again, and no call after that.
  expect(told).toEqual([1, 0, 1, 0, 1, 0]);
  await store.close();
});

test('without the option there is no block and no session_context tool', async () => {
  const caller = await connectPipe('v2', sessionsWith());
  open.push(caller);
  expect(await textsOf(caller)).toHaveLength(1);
  expect((await caller.client.listTools()).tools.map(({ name }) => name)).not.toContain('session_context');
  expect(caller.client.getInstructions()).toBeUndefined();
});

test('G4: with nothing configured a session gets the short note', async () => {
  const caller = await connectPipe('v2', sessionsWith({ governance: {}, tools: false }));
  open.push(caller);
  const [block, ...rest] = await textsOf(caller);
  expect(block).toContain('No policies or objectives configured.');
  expect(rest).toHaveLength(1);
  const { tools } = await caller.client.listTools();
  expect(tools.map(({ name }) => name).filter((name) => name.startsWith('session_'))).toEqual(['session_context']);
});

test('G2, G7: the policy service is asked for each new session, with its user and workspace', async () => {
  const asked: unknown[][] = [];
  const resolve = (...given: unknown[]) => {
    asked.push(given);
    return {
      policies: [
        { name: 'house', text: `Rule ${asked.length}.`, inherited: true },
        { name: 'own', text: 'Be brief.', mode: 'append' as const },
      ],
      objectives: ['Finish'],
    };
  };
  const sessions = sessionsWith({
    governance: { resolve },
    identify: (key) => (key === 'pcp_ada' ? { userId: 'ada', workspaceId: 'w1' } : undefined),
  });
  const fetch = serveSessions(sessions);
  const connect = async () => {
    const caller = await connectHttp(fetch, 'handshake', undefined, { authorization: 'Bearer pcp_ada' });
    open.push(caller);
    return caller;
  };
  const first = await connect();
  expect((await textsOf(first))[0]?.split('\n').slice(2, 8)).toEqual([
    'Policies:',
    '  - [prepend] house: Rule 1. (inherited)',
    '  - [append] own: Be brief. (local)',
    '',
    'Objectives:',
    '  - Finish',
  ]);
  expect(await textsOf(first)).toHaveLength(1);
  expect((await textsOf(await connect()))[0]).toContain('Rule 2.');
  expect(asked).toEqual([
    ['ada', 'w1'],
    ['ada', 'w1'],
  ]);
});

test('G8: a session that has the block gets the new one when the policy service says that it has changed', async () => {
  let text = 'Old rule.';
  const resolve = () => ({ policies: [{ name: 'rule', text }] });
  const sessions = sessionsWith({ governance: { resolve } });
  const caller = await connectPipe('v1', sessions);
  open.push(caller);
  expect((await textsOf(caller))[0]).toContain('Old rule.');
  sessions.policiesChanged();
  await sessions.policies.list();
  expect(await textsOf(caller)).toHaveLength(1);
  text = 'New rule.';
  sessions.policiesChanged();
  await sessions.policies.list();
  const [changed, ...rest] = await textsOf(caller);
  expect(changed).toMatch(/have changed[\s\S]*New rule\./);
  expect(rest).toHaveLength(1);
  expect(await textsOf(caller, 'session_context', { session: 'current' })).toEqual([
    expect.stringContaining('New rule.'),
  ]);
});

test('G5: policies are written into the store through the sessions', async () => {
  const sessions = sessionsWith({ governance: {} });
  await sessions.policies.set({ scope: 'user:local', name: 'kind', mode: 'prepend', text: 'Be kind.' });
  await sessions.policies.addObjective({ scope: 'org', text: 'Ship it' });
  const caller = await connectPipe('v2', sessions);
  open.push(caller);
  expect((await textsOf(caller))[0]).toMatch(/kind: Be kind\. \(local\)[\s\S]*Ship it/);
  expect(await sessions.policies.remove('user:local', 'kind')).toBe(true);
  await expect(sessionsWith().policies.list()).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
});

test('G3: without policies, and for anonymous callers, the call works and a warning is logged', async () => {
  const warnings: string[] = [];
  const log = { info() {}, warn: (event: string) => void warnings.push(event) };
  const broken = sessionsWith({ log, governance: { resolve: () => Promise.reject(new Error('away')) } });
  const local = await connectPipe('v2', broken);
  open.push(local);
  expect(await textsOf(local)).toHaveLength(1);
  const sessions = sessionsWith({ log, governance, identify: () => undefined, unknownCallers: 'anonymous' });
  for (const headers of [{}, { authorization: 'Bearer wrong' }] as Record<string, string>[]) {
    const caller = await connectHttp(serveStateless(sessions), 'modern', undefined, headers);
    open.push(caller);
    expect((await caller.call('whoami')).value).toMatchObject({ userId: 'anonymous', trustLevel: 'sandboxed' });
    await caller.call('add', { item: 'left behind' });
    expect((await caller.call('items')).value).toEqual([]);
  }
  expect(await sessions.list()).toEqual([]);
  expect(warnings).toEqual([
    'policies cannot be resolved',
    'call of an anonymous caller',
    'no policies for anonymous callers',
  ]);
});

test('G8: the block counts as delivered when its answer was sent, and is sent again otherwise', async () => {
  const store = openMemoryStore();
  const principal: ServerSessionsOptions['principal'] = () => ({ userId: 'ada' });
  const fetch = serveStateless(sessionsWith({ governance, store, principal }));
  const caller = await connectHttp(fetch, 'modern', createAuth('ada'));
  open.push(caller);
  const controller = new AbortController();
  const cancelled = caller.client.callTool({ name: 'whoami', arguments: { pause: 50 } }, { signal: controller.signal });
  await expect.poll(async () => (await store.list()).sessions.length).toBe(1);
  controller.abort();
  await expect(cancelled).rejects.toThrow();
  expect((await textsOf(caller))[0]).toContain(headerLine);
  expect(await textsOf(caller)).toHaveLength(1);
  await store.close();
});

test('G8: the signature of a block can be verified with the published keys, also after a restart', async () => {
  const storeDir = await mkdtemp(join(tmpdir(), 'ambit-signed-'));
  const first = sessionsWith({ governance: { ...governance, issuer: 'https://pcp.example' }, storeDir });
  const caller = await connectPipe('v2', first);
  const { content } = (await caller.client.callTool({ name: 'whoami', arguments: {} })) as never as {
    content: { text: string; _meta: Record<string, { token: string }> }[];
  };
  await caller.close();
  await first.close();
  const token = content[0]?._meta['ambit/context-block']?.token ?? '';
  const [head = '', body = '', signature = ''] = token.split('.');
  const { kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string };
  const second = sessionsWith({ governance, storeDir });
  const jwk = (await second.jwks()).keys.find((key) => key['kid'] === kid);
  const key = createPublicKey({ key: jwk as never, format: 'jwk' });
  const isValid = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
  expect(isValid(`${head}.${body}`)).toBe(true);
  expect(isValid(`${head}.${body.slice(0, -2)}`)).toBe(false);
  expect(JSON.parse(Buffer.from(body, 'base64url').toString())).toMatchObject({ iss: 'https://pcp.example' });
  await second.close();
  await rm(storeDir, { recursive: true, force: true });
});

test('G1: a discover without the credential, or with that of another user, does not bring the block again', async () => {
  const sessions = sessionsWith({
    governance,
    identify: (key) => (key.startsWith('key-') ? { userId: key.slice(4) } : undefined),
  });
  const fetch = serveStateless(sessions);
  const connect = async (key: string | undefined) => {
    const caller = await connectHttp(
      fetch,
      'modern',
      undefined,
      key === undefined ? {} : { authorization: `Bearer ${key}` },
    );
    open.push(caller);
    return caller;
  };
  const ada = await connect('key-ada');
  expect(await textsOf(ada)).toHaveLength(2);
  for (const other of ['key-bob', 'wrong', undefined]) {
    await connect(other);
    expect(await textsOf(ada)).toHaveLength(1);
  }
  await connect('key-ada');
  expect(await textsOf(ada)).toHaveLength(2);
});

test('G1: a modern client on stdio gets the block again in a session that outlives the connection', async () => {
  const store = openMemoryStore();
  const counts: number[] = [];
  for (let connections = 0; connections < 2; connections++) {
    const env = { AMBIT_SESSION_ID: 'session-of-the-environment' };
    const sessions = createServerSessions({ governance, store, context: { env } });
    const [near, far] = InMemoryTransport.createLinkedPair();
    serveStdio(() => buildServer('v2', sessions) as never, { transport: near });
    const client = new Client({ name: 'pipe', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(far);
    for (let calls = 0; calls < 2; calls++) counts.push((await textsOf({ client })).length);
    await client.close();
    await sessions.close();
  }
  expect(counts).toEqual([2, 1, 2, 1]);
  await store.close();
});
