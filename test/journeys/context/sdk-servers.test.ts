import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { proof } from '../../proof.ts';
import { startHttpServer } from '../../public/sdk/start-http-server.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { type ReplayingProxy, startReplayingProxy } from './replaying-proxy.ts';

const between = join(import.meta.dirname, 'fixtures/says-twice.js');
const script = (sdk: string) => join(import.meta.dirname, `../../public/sdk/fixtures/stdio-${sdk}.js`);
const folder = mkdtempSync(join(tmpdir(), 'ambit-sdk-servers-'));
const workspace = join(folder, 'garden');
/** Filled once there is a gateway; the servers look at it when the first call comes. */
const keys: { keys: object[] } = { keys: [] };
const proxies = new Map<string, ReplayingProxy>();
const closers: (() => Promise<unknown>)[] = [];
let gateway: EmbeddedGateway;
let direct: string;
let sandboxed: string;

const servers = [
  ['stdio-v1', 'v1', 'auto'],
  ['stdio-v2', 'v2', 'auto'],
  ['stdio-v2-old', 'v2', 'handshake'],
  ['http-v1', 'v1', 'auto'],
  ['http-v2', 'v2', 'auto'],
  ['http-v2-old', 'v2', 'handshake'],
] as const;

async function define(name: string, sdk: 'v1' | 'v2', era: 'auto' | 'handshake') {
  if (name.startsWith('stdio')) return { command: process.execPath, args: [between, script(sdk)], era };
  let behind = '';
  const proxy = await startReplayingProxy(() => behind);
  const server = await startHttpServer(sdk, keys, () => proxy.url);
  behind = server.url;
  proxies.set(name, proxy);
  closers.push(proxy.close, server.close);
  const trust: ('direct' | 'sandboxed')[] = ['direct', 'sandboxed'];
  return { url: proxy.url, context: 'full' as const, trust, era };
}

beforeAll(async () => {
  const defined = await Promise.all(servers.map(async ([name, sdk, era]) => [name, await define(name, sdk, era)]));
  gateway = await createQuietGateway(join(folder, 'data'), {
    sessions: { defaultTrust: 'direct' },
    servers: Object.fromEntries(defined),
    workspaces: { garden: { path: workspace, create: true } },
  });
  const { url } = await gateway.listen({ port: 0 });
  keys.keys.push(...((await (await fetch(`${url}/.well-known/jwks.json`)).json()) as typeof keys).keys);
  direct = (await gateway.createSession({ userId: 'ada', agentId: 'coder', workspaceId: 'garden' })).id;
  sandboxed = (await gateway.createSession({ userId: 'cy', trustLevel: 'sandboxed' })).id;
});

afterAll(async () => {
  await gateway?.close();
  for (const close of closers) await close();
  rmSync(folder, { recursive: true, force: true });
});

// Clients of the two eras take turns; for the proof both come to every server.
const cells = servers.flatMap(([name], index) =>
  (['modern', 'handshake'] as const)
    .filter((_, turn) => proof || index % 2 === turn)
    .map((era) => [name, era] as const),
);

describe.each(cells)('%s, for a client of the %s era', (server, era) => {
  let client: RawClient;
  beforeAll(async () => {
    client = await createRawClient(gateway.connect(direct, server), era);
  });
  afterAll(() => client?.close());

  test('P12: a tool behind the gateway finds its session verified, with the right values', async () => {
    const told = {
      status: 'verified',
      sessionId: direct,
      userId: 'ada',
      agentId: 'coder',
      workspaceId: 'garden',
      trustLevel: 'direct',
      permissions: [],
    };
    const said = JSON.parse(await client.call('whoami', { tag: 'é\u2028"' })) as Record<string, unknown>;
    expect(said).toMatchObject({ ...told, tag: 'é\u2028"', same: true });
    expect(said.workspacePath).toBe(server.startsWith('stdio') ? workspace : undefined);
    expect(JSON.parse(await client.call('plain'))).toMatchObject(told);
    expect(JSON.parse(await client.call('where'))).toMatchObject({ workspace: 'garden', from: 'session' });
    const { result } = await client.request('resources/read', { uri: 'note://1', name: 'harmless' });
    const [content] = (result?.contents ?? []) as { text: string }[];
    expect(JSON.parse(content?.text ?? '')).toMatchObject(told);
    expect(await client.tools()).toContain('whoami');
  });

  test('P11: trust and permissions are enforced by it', async () => {
    expect(await client.call('delete_note', { id: 7 })).toMatch(/^PERMISSION_DENIED/);
    if (!server.startsWith('http')) return;
    const caged = await createRawClient(gateway.connect(sandboxed, server), era);
    expect(JSON.parse(await caged.call('whoami'))).toMatchObject({ sessionId: sandboxed, trustLevel: 'sandboxed' });
    expect(await caged.call('delete_note', { id: 7 })).toMatch(/^TRUST_REQUIRED/);
    await caged.close();
  });

  test('P12: a request that reaches it again, or with other arguments, is refused with the reason', async () => {
    expect(await client.call('whoami', { tag: 'twice' })).toMatch(/^CONTEXT_REFUSED: The token has already been used/);
    expect(await client.call('whoami', { tag: 'changed' })).toMatch(
      /^CONTEXT_REFUSED: The token is for other arguments/,
    );
  });
});

test('P12: a request that was recorded at one server is refused by another', async () => {
  const [from, to] = [proxies.get('http-v2'), proxies.get('http-v2-old')];
  const call = from?.recorded.findLast(({ body }) => body.includes('"plain"'));
  const answer = await fetch(to?.url ?? '', { method: 'POST', ...call });
  expect(await answer.text()).toMatch(/CONTEXT_REFUSED: The token is meant for .* not for this server/);
});
