import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { readContext } from '../../../src/public/sdk/index.ts';
import { startRecorder, stdioRecorder } from '../../fixtures/start-recorder.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { findKeyFile } from './find-key-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-hidden-'));
const garden = join(folder, 'path-of-the-garden');
const hidden = ['stdio-a', 'stdio-b', 'http-a', 'http-b'] as const;
const silent = ['stdio-none', 'http-none'] as const;
type Name = (typeof hidden)[number] | (typeof silent)[number];
let web: Awaited<ReturnType<typeof startRecorder>>;
let gateway: EmbeddedGateway;
let keys: { keys: object[] };
const sessions = new Map<string, string>();
const clients: RawClient[] = [];

const drafts: Record<string, SessionDraft> = {
  first: { userId: 'ada-of-the-house', agentId: 'coder-of-the-house', workspaceId: 'garden-of-the-house' },
  second: { userId: 'ada-of-the-house', agentId: 'coder-of-the-house', workspaceId: 'garden-of-the-house' },
  other: { userId: 'bob-of-the-house', agentId: 'coder-of-the-house' },
};

beforeAll(async () => {
  web = await startRecorder();
  const pipe = stdioRecorder;
  gateway = await createQuietGateway(join(folder, 'data'), {
    sessions: { defaultTrust: 'direct' },
    context: { envPrefixes: ['AMBIT', 'PARACHUTE'] },
    servers: {
      'stdio-a': { ...pipe, context: 'pseudonymous' },
      'stdio-b': { ...pipe, context: 'pseudonymous' },
      'stdio-none': { ...pipe, context: 'none' },
      // What a server over HTTP is told unless somebody decides otherwise.
      'http-a': { url: `${web.url}/http-a` },
      'http-b': { url: `${web.url}/http-b` },
      'http-none': { url: `${web.url}/http-none`, context: 'none' },
    },
    workspaces: { 'garden-of-the-house': { path: garden, create: true } },
  });
  const { url } = await gateway.listen({ port: 0 });
  keys = (await (await fetch(`${url}/.well-known/jwks.json`)).json()) as typeof keys;
  for (const [name, draft] of Object.entries(drafts)) sessions.set(name, (await gateway.createSession(draft)).id);
});

afterAll(async () => {
  for (const client of clients) await client.close();
  await gateway?.close();
  await web?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function connect(session: string, server: Name, era: 'modern' | 'handshake' = 'modern'): Promise<RawClient> {
  const client = await createRawClient(gateway.connect(sessions.get(session) as string, server), era);
  clients.push(client);
  return client;
}

/** Every value that names a session, its user, agent, workspace, path or permissions. */
function expectNothingReal(text: string): void {
  expect(text).not.toMatch(/of-the-house|path-of-the-garden/);
  for (const id of sessions.values()) {
    expect(text).not.toContain(id);
    expect(text).not.toContain(id.slice(0, 8));
  }
}

function contextIn(raw: string): Record<string, unknown> & { token: string } {
  const { _meta } = (JSON.parse(raw) as { params: { _meta: Record<string, never> } }).params;
  return _meta['ambit/context'] as unknown as Record<string, unknown> & { token: string };
}

const audienceOf = (server: Name) => (server.startsWith('http') ? `${web.url}/${server}` : `ambit:server:${server}`);

/** Reads the context that a server got by each carrier; all must agree. */
async function learnt(session: string, server: Name, era: 'modern' | 'handshake' = 'modern') {
  const client = await connect(session, server, era);
  const raw = await client.call('echo', { a: 1 });
  expectNothingReal(raw);
  const said = contextIn(raw);
  const claims = decodeJwt(said.token);
  expectNothingReal(JSON.stringify(claims));
  const call = { meta: { 'ambit/context': said }, method: 'tools/call', name: 'echo', arguments: { a: 1 } };
  const keyFile = findKeyFile(join(folder, 'data'), said.token);
  const env = { AMBIT_CONTEXT_KEY_FILE: keyFile };
  const context = await readContext(call, { keys, audience: audienceOf(server), env });
  expect(context).toMatchObject({ status: 'verified', trustLevel: 'direct', permissions: [], reason: undefined });
  expect(context.workspacePath).toBeUndefined();
  expect(said).toMatchObject({ workspacePath: null, permissions: [] });
  const { sessionId, userId, agentId, workspaceId, correlationId } = context;
  if (server.startsWith('stdio')) {
    const environment = JSON.parse(await client.call('environment')) as Record<string, string>;
    expectNothingReal(JSON.stringify(environment));
    const { TMPDIR: _private, PATH: _path, HOME: _home, LANG: _lang, ...rest } = environment;
    const { AMBIT_JWKS, PARACHUTE_JWKS, AMBIT_CONTEXT_KEY_FILE, PARACHUTE_CONTEXT_KEY_FILE, ...told } = rest;
    expect([AMBIT_CONTEXT_KEY_FILE, PARACHUTE_CONTEXT_KEY_FILE]).toEqual([keyFile, keyFile]);
    const names = { SESSION_ID: sessionId, USER_ID: userId, AGENT_ID: agentId, WORKSPACE_ID: workspaceId ?? '' };
    const expected = Object.entries({ ...names, TRUST_LEVEL: 'direct' }).flatMap(([name, value]) =>
      ['AMBIT', 'PARACHUTE'].map((prefix) => [`${prefix}_${name}`, value]),
    );
    expect(told).toEqual(Object.fromEntries(expected));
    expect(JSON.parse(AMBIT_JWKS ?? '')).toMatchObject(keys);
    expect(PARACHUTE_JWKS).toBe(AMBIT_JWKS);
  }
  return { sessionId, userId, agentId, workspaceId, correlationId };
}

describe.each(hidden)('P12: %s', (server) => {
  test('learns no real id, path or permission, and the same names each time', async () => {
    const first = await learnt('first', server);
    const again = await learnt('first', server, 'handshake');
    expect({ ...again, correlationId: 0 }).toEqual({ ...first, correlationId: 0 });
    expect(again.correlationId).not.toBe(first.correlationId);
    const second = await learnt('second', server);
    const { userId, agentId, workspaceId } = first;
    expect(second).toMatchObject({ userId, agentId, workspaceId });
    expect(second.sessionId).not.toBe(first.sessionId);
    const other = await learnt('other', server);
    expect(other.userId).not.toBe(userId);
    expect(other).toMatchObject({ agentId, workspaceId: undefined });
  });
});

test('P12: two servers that compare the names they were given find nothing in common', async () => {
  const all = await Promise.all(hidden.map(async (server) => Object.values(await learnt('first', server))));
  const names = all.flat().filter((name) => name !== undefined);
  expect(new Set(names).size).toBe(names.length);
  const pieces = names.map((name) => new Set(Array.from({ length: 21 }, (_, i) => name.slice(-32 + i).slice(0, 12))));
  for (const [i, one] of pieces.entries()) {
    for (const two of pieces.slice(i + 1)) for (const piece of one) expect(two.has(piece)).toBe(false);
  }
});

test('P12: a server that is to get no context gets none, by any carrier', async () => {
  for (const server of silent) {
    for (const era of ['modern', 'handshake'] as const) {
      const client = await connect('first', server, era);
      const raw = await client.call('echo', {});
      expectNothingReal(raw);
      expect(raw).not.toMatch(/ambit\/|trustLevel|token/i);
      if (server !== 'stdio-none') continue;
      const environment = JSON.parse(await client.call('environment')) as Record<string, string>;
      expect(Object.keys(environment).filter((name) => /^(?:AMBIT|PARACHUTE)_/.test(name))).toEqual([]);
      expect(await client.call('recorded')).not.toContain('ambit/');
    }
  }
});

test('P12: no header of a request over HTTP says more than its token', async () => {
  const all = (await (await fetch(new URL('/recorded', web.url))).json()) as {
    url: string;
    headers: string[];
    body: string;
  }[];
  expect(all.length).toBeGreaterThan(20);
  for (const { url, headers, body } of all) {
    expectNothingReal(headers.join('\n'));
    expectNothingReal(body);
    const at = headers.findIndex((name) => name.toLowerCase() === 'txn-token');
    if (url.endsWith('none')) expect([at, body.includes('ambit/')]).toEqual([-1, false]);
    else if (at !== -1) expectNothingReal(JSON.stringify(decodeJwt(headers[at + 1] ?? '')));
  }
});
