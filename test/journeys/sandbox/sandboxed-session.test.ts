import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway, SessionDraft } from '../../../src/index.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { repository } from '../../structure/source-files.ts';
import { waitForCount, waitUntilEmpty } from '../wait-until.ts';
import { expectPrivateKey } from './expect-private-key.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, dataDir, open, use: useAs, journal, close } = createSandboxFolder('sandboxed');
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

beforeAll(async () => {
  for (const place of [garden, kitchen, granted]) {
    mkdirSync(place);
    writeFileSync(join(place, 'note'), `of ${place}`);
  }
  process.env['HOST_SECRET'] = 'host-secret';
  gateway = await open({
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
  await close();
  delete process.env['HOST_SECRET'];
});

const use = (server: string, draft: SessionDraft, era?: 'modern' | 'handshake') =>
  useAs(server, { userId: 'ada', agentId: 'a1', ...draft }, era);

describe.skipIf(!hasBwrap())('the servers of a sandboxed session', () => {
  test.each([
    ['long-lived', 'recorder'],
    ['one-shot', 'once'],
  ])('P5: %s, get the same context as those of a direct one, and nothing of the host', async (_, server) => {
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
      AMBIT_CONTEXT_KEY_FILE: '/run/ambit-context-key.json',
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

  test('P12: have a key of their own, which they cannot change and no other server sees', async () => {
    const [one, other] = [await use('recorder', boxedInGarden), await use('recorder', boxedInGarden)];
    await expectPrivateKey(dataDir, one.client, other.client, () => gateway.endSession(one.id));
  });

  test('reach the workspace and the granted paths only, even a server that is started with / as its root', async () => {
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

  test('are ended when they exceed their memory limit; the caller gets the reason, and other servers go on', async () => {
    const { client } = await use('greedy', boxedInGarden);
    const other = await use('recorder', boxedInGarden);
    expect(await client.call('eat')).toMatch(
      /^UPSTREAM_FAILED: The server "greedy" was ended: (?:it used \d+ MiB of memory|it needed more memory).* sandbox\.memoryMb is 150/,
    );
    expect(await other.client.call('environment')).toContain(other.id);
  });

  test('P6: a running session that is restricted to sandboxed goes on in a sandbox', async () => {
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
