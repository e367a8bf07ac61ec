import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import { buildLocalImage } from '../../../src/sandbox/container/start-container.ts';
import type { RawClient } from '../../gateway/raw-client.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { repository } from '../../structure/source-files.ts';
import { waitUntilEmpty } from '../wait-until.ts';
import { expectPrivateKey } from './expect-private-key.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, dataDir, open, use: useAs, journal, close } = createSandboxFolder('contained');
const garden = join(folder, 'garden');
const image = `localhost/ambit-test-image:${process.pid}`;
const path = process.env['PATH'];
const fixture = (name: string) => ({ command: process.execPath, args: [join(repository, 'test', name)] });
const recorder = { ...fixture('fixtures/recorder/stdio.js'), env: { CUSTOM: 'configured' } };
const reaching = fixture('journeys/sandbox/reaches-out.js');
const web = createServer((_, answer) => answer.end('reached'));
let place = '';
let gateway: EmbeddedGateway;

describe.skipIf(!hasPodman())('a sandboxed session where there is no bwrap', () => {
  beforeAll(async () => {
    mkdirSync(garden);
    writeFileSync(join(garden, 'note'), 'mine');
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    const podman = findProgramOnPath('podman', path) as string;
    symlinkSync(podman, join(bin, 'podman'));
    // An image of somebody's: other variables, and none of this machine's programs but what is granted below.
    const { content } = buildLocalImage({ uid: 0, gid: 0 }, []);
    execFileSync(podman, ['import', '--change', 'ENV=OF_THE_IMAGE=kept', '-', image], {
      input: content,
      stdio: 'pipe',
    });
    await once(web.listen(0, '127.0.0.1'), 'listening');
    place = `127.0.0.1:${(web.address() as { port: number }).port}`;
    process.env['PATH'] = bin;
    process.env['HOST_SECRET'] = 'host-secret';
    gateway = await open({
      servers: {
        recorder,
        once: { ...recorder, scope: 'call' },
        who: fixture('public/sdk/fixtures/stdio-v2.js'),
        imaged: { ...recorder, sandbox: { image, readable: ['/usr'] } },
        open: { ...reaching, sandbox: { network: [place] } },
        outward: { ...reaching, sandbox: { image, readable: ['/usr'], network: [place] } },
        without: { ...reaching, sandbox: { image, network: [place] } },
        program: { ...reaching, sandbox: { image } },
        absent: { ...recorder, sandbox: { image: 'localhost/ambit-nowhere:1' } },
      },
      workspaces: { garden: { path: garden } },
    });
  });

  afterAll(async () => {
    process.env['PATH'] = path;
    delete process.env['HOST_SECRET'];
    await close();
    web.close();
    execFileSync('podman', ['rmi', '--force', image], { stdio: 'ignore' });
  });

  const use = (server: string, trustLevel: 'sandboxed' | 'direct' = 'sandboxed') =>
    useAs(server, { userId: 'ada', agentId: 'a1', trustLevel, workspaceId: 'garden' });
  const environmentOf = async (client: RawClient) =>
    JSON.parse(await client.call('environment')) as Record<string, string>;

  const kinds: [string, string, Record<string, string>][] = [
    ['long-lived', 'recorder', {}],
    ['in an image', 'imaged', { OF_THE_IMAGE: 'kept' }],
  ];
  if (proof) kinds.push(['one-shot', 'once', {}]);
  test.each(kinds)(
    'P5: a server in a container, %s, gets the same context as in a direct session',
    async (_, server, more) => {
      const [contained, direct] = [await use(server), await use(server, 'direct')];
      const { PATH: _path, AMBIT_JWKS: keys = '{}', ...inside } = await environmentOf(contained.client);
      const outside = await environmentOf(direct.client);
      expect(inside).toEqual({
        HOME: '/tmp/home',
        LANG: 'C.UTF-8',
        TMPDIR: '/tmp',
        PWD: garden,
        HOSTNAME: 'sandbox',
        CUSTOM: 'configured',
        AMBIT_SESSION_ID: contained.id,
        AMBIT_WORKSPACE_ID: 'garden',
        AMBIT_WORKSPACE_PATH: garden,
        AMBIT_TRUST_LEVEL: 'sandboxed',
        AMBIT_USER_ID: 'ada',
        AMBIT_AGENT_ID: 'a1',
        AMBIT_CONTEXT_KEY_FILE: '/run/ambit-context-key.json',
        ...more,
      });
      const ours = Object.keys(outside).filter((name) => name.startsWith('AMBIT_') && name !== 'AMBIT_JWKS');
      expect(Object.keys(inside)).toEqual(expect.arrayContaining(ours));
      const told = JSON.parse(outside['AMBIT_JWKS'] ?? '{}') as { keys: unknown };
      expect(JSON.parse(keys)).toEqual({ keys: told.keys, source: '/run/ambit/jwks.json' });
      if (server !== 'imaged') return;
      const other = await use('recorder');
      await expectPrivateKey(dataDir, contained.client, other.client, () => gateway.endSession(contained.id));
    },
  );

  test('P5: a server in a container verifies whom it serves', async () => {
    const { id, client } = await use('who');
    expect(JSON.parse(await client.call('whoami'))).toMatchObject({
      sessionId: id,
      userId: 'ada',
      workspacePath: garden,
      trustLevel: 'sandboxed',
      status: 'verified',
    });
  });

  const places: [string, string][] = [['of this machine', 'open']];
  if (proof) places.push(['of an image with Node', 'outward']);
  test.each(places)('a server in a container %s reaches the hosts it was granted and no others', async (_, server) => {
    const { client } = await use(server);
    expect(await client.call('reach', { place })).toContain('reached');
    expect(await client.call('reach', { place: '169.254.169.254:80' })).toMatch(/^HTTP\/1\.1 403 [\s\S]*not listed/);
  });

  test('an image without Node reaches no host, and one without the program starts no server; both errors say so', async () => {
    const [hosts, program] = [await use('without'), await use('program')];
    const said = await hosts.client.call('reach', { place });
    expect(said).toMatch(/^SANDBOX_UNAVAILABLE: .*that needs "node".*\n?.*an image with Node/s);
    expect(await program.client.call('reach', { place })).toMatch(
      /^SANDBOX_UNAVAILABLE: .*does not have the program "node"/,
    );
  });

  test('a missing image is not pulled; the error says how to pull it', async () => {
    const { client } = await use('absent');
    const said = await client.call('environment');
    expect(said).toMatch(/^SANDBOX_UNAVAILABLE: .*"localhost\/ambit-nowhere:1" is not on this machine/);
    expect(said).toContain('podman pull localhost/ambit-nowhere:1');
  });

  test('P6: no server ran outside a container, and nothing is left when the sessions end', async () => {
    const started = journal().filter(({ event }) => event === 'started');
    const levels = new Map((await gateway.listSessions()).map(({ id, trustLevel }) => [id, trustLevel]));
    expect(started.length).toBeGreaterThan(5);
    for (const { runner, sessionId } of started) {
      expect(runner).toBe(levels.get(sessionId as string) === 'direct' ? 'plain' : 'container');
    }
    for (const id of levels.keys()) await gateway.endSession(id);
    await waitUntilEmpty(() => processesIn(garden), 10_000);
    const [instance = ''] = readdirSync(join(dataDir, 'tmp'));
    const filter = ['--filter', `label=ambit.instance=${instance}`];
    const left = () => execFileSync('podman', ['ps', '--all', '--quiet', ...filter], { encoding: 'utf8' }).trim();
    await until(
      () => left() === '',
      10_000,
      () => `left: ${left()}`,
    );
  });
});
