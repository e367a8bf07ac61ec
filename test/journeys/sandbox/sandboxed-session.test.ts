import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { repository } from '../../structure/source-files.ts';
import { createQuietGateway } from '../start-embedded-ambit.ts';
import { waitForCount, waitUntilEmpty } from '../wait-until.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-sandboxed-')));
const dataDir = join(folder, 'data');
const garden = join(folder, 'garden');
const kitchen = join(folder, 'kitchen');
const granted = join(folder, 'granted');
const node = (...args: string[]) => ({ command: process.execPath, args });
const fixture = (name: string) => join(repository, 'test', name);
const files = join(repository, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js');
const boxedInGarden = { trustLevel: 'sandboxed', workspaceId: 'garden' } as const;
const directInGarden = { trustLevel: 'direct', workspaceId: 'garden' } as const;
const inGarden = { IN: 'the garden' };
let gateway: EmbeddedGateway;
const clients: RawClient[] = [];

beforeAll(async () => {
  for (const place of [garden, kitchen, granted]) {
    mkdirSync(place);
    writeFileSync(join(place, 'note'), `of ${place}`);
  }
  process.env['HOST_SECRET'] = 'host-secret';
  gateway = await createQuietGateway(dataDir, {
    servers: {
      recorder: { ...node(fixture('fixtures/recorder/stdio.js')), env: { CUSTOM: 'configured' } },
      once: { ...node(fixture('fixtures/recorder/stdio.js')), env: { CUSTOM: 'configured' }, scope: 'call' },
      who: node(fixture('public/sdk/fixtures/stdio-v2.js')),
      // Told that everything is its own: the sandbox decides what is there.
      files: { ...node(files, '/'), sandbox: { readable: [granted] } },
      greedy: { ...node(fixture('sandbox/bwrap/greedy-server.js')), sandbox: { memoryMb: 150 } },
    },
    workspaces: { garden: { path: garden, env: { recorder: inGarden, once: inGarden } }, kitchen: { path: kitchen } },
  });
});

afterAll(async () => {
  for (const client of clients) await client.close();
  await gateway?.close();
  delete process.env['HOST_SECRET'];
  rmSync(folder, { recursive: true, force: true });
});

async function use(server: string, draft: SessionDraft, era: 'modern' | 'handshake' = 'modern') {
  const { id } = await gateway.createSession({ userId: 'ada', agentId: 'a1', ...draft });
  const client = await createRawClient(gateway.connect(id, server), era);
  clients.push(client);
  return { id, client };
}

const journal = () =>
  readFileSync(join(dataDir, 'journal/journal.jsonl'), 'utf8')
    .split('\n')
    // What is behind the last line break is still being written, or nothing.
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe.skipIf(!hasBwrap())('the servers of a sandboxed session', () => {
  test.each([
    ['long-lived', 'recorder'],
    ['one-shot', 'once'],
  ])('P5: %s, are told the same as those of a direct one, and nothing of the host', async (_, server) => {
    const [boxed, direct] = [await use(server, boxedInGarden), await use(server, directInGarden)];
    const inside = JSON.parse(await boxed.client.call('environment')) as Record<string, string>;
    const outside = JSON.parse(await direct.client.call('environment')) as Record<string, string>;
    const { AMBIT_JWKS: keysInside, ...told } = inside;
    expect(told).toEqual({
      PATH: expect.stringContaining('/usr/bin'),
      HOME: '/tmp/home',
      LANG: 'C.UTF-8',
      TMPDIR: '/tmp',
      PWD: garden,
      CUSTOM: 'configured',
      IN: 'the garden',
      AMBIT_SESSION_ID: boxed.id,
      AMBIT_WORKSPACE_ID: 'garden',
      AMBIT_WORKSPACE_PATH: garden,
      AMBIT_TRUST_LEVEL: 'sandboxed',
      AMBIT_USER_ID: 'ada',
      AMBIT_AGENT_ID: 'a1',
    });
    const ours = (env: Record<string, string>) =>
      Object.keys(env)
        .filter((name) => name.startsWith('AMBIT_'))
        .sort();
    expect(ours(inside)).toEqual(ours(outside));
    const { source, ...keys } = JSON.parse(keysInside ?? '{}') as { source: string };
    expect(keys).toEqual({ keys: (JSON.parse(outside['AMBIT_JWKS'] ?? '{}') as { keys: unknown }).keys });
    expect(source).toBe('/run/ambit/jwks.json');
  });

  test.each(['modern', 'handshake'] as const)('P5: verify whom they serve, in the %s era', async (era) => {
    const { id, client } = await use('who', boxedInGarden, era);
    expect(JSON.parse(await client.call('whoami'))).toMatchObject({
      sessionId: id,
      userId: 'ada',
      agentId: 'a1',
      workspaceId: 'garden',
      workspacePath: garden,
      trustLevel: 'sandboxed',
      status: 'verified',
    });
    expect(await client.call('delete_note', { id: 1 })).toContain('TRUST_REQUIRED');
  });

  test('reach the workspace and what was granted, and nothing else, though a server be told it owns the machine', async () => {
    const { client } = await use('files', boxedInGarden);
    const read = (path: string) => client.call('read_text_file', { path });
    expect(await read(join(garden, 'note'))).toContain(`of ${garden}`);
    expect(await read(join(granted, 'note'))).toContain(`of ${granted}`);
    const journalFile = join(dataDir, 'journal/journal.jsonl');
    for (const path of [
      join(kitchen, 'note'),
      journalFile,
      '/etc/shadow',
      '/etc/hostname',
      join(repository, '.git/HEAD'),
    ]) {
      expect(await read(path), path).toMatch(/ENOENT|does not exist/);
    }
    const write = (path: string) => client.call('write_file', { path, content: 'x' });
    expect(await write(join(garden, 'made'))).toContain('Successfully');
    expect(readFileSync(join(garden, 'made'), 'utf8')).toBe('x');
    for (const path of [join(granted, 'made'), '/etc/made', '/usr/made', files]) {
      expect(await write(path), path).not.toContain('Successfully');
    }
  });

  test('work in a folder of their session where there is no workspace', async () => {
    const { id, client } = await use('recorder', { trustLevel: 'sandboxed' });
    const told = JSON.parse(await client.call('environment')) as Record<string, string>;
    expect(told).toMatchObject({ AMBIT_WORKSPACE_ID: '', AMBIT_WORKSPACE_PATH: '', PWD: join(dataDir, 'run', id) });
  });

  test('are ended alone when they take more than they were given, and the caller is told why', async () => {
    const { client } = await use('greedy', boxedInGarden);
    const other = await use('recorder', boxedInGarden);
    expect(await client.call('eat')).toMatch(
      /^UPSTREAM_FAILED: The server "greedy" was ended: (?:it used \d+ MiB of memory|it wanted more memory).* sandbox\.memoryMb is 150/,
    );
    expect(await other.client.call('environment')).toContain(other.id);
  });

  test('P6: a session that is sandboxed while it runs goes on in a sandbox', async () => {
    const { id, client } = await use('recorder', directInGarden);
    expect(JSON.parse(await client.call('environment'))).toMatchObject({ AMBIT_TRUST_LEVEL: 'direct' });
    await gateway.restrictSession(id, { trustLevel: 'sandboxed' });
    expect(JSON.parse(await client.call('environment'))).toMatchObject({
      AMBIT_TRUST_LEVEL: 'sandboxed',
      TMPDIR: '/tmp',
    });
    const runners = () =>
      journal().flatMap((entry) =>
        entry['sessionId'] === id && entry['event'] === 'started' ? [entry['runner']] : [],
      );
    await waitForCount(() => runners().length, 2, 5000);
    expect(runners()).toEqual(['plain', 'bwrap']);
  });

  test('leave nothing behind when their session ends', async () => {
    expect(processesIn(garden).length).toBeGreaterThan(0);
    for (const { id } of await gateway.listSessions()) await gateway.endSession(id);
    await waitUntilEmpty(() => processesIn(garden), 5000);
    await waitUntilEmpty(() => readdirSync(join(dataDir, 'run')), 5000);
  });
});
