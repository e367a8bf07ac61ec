import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import type { RawClient } from '../../gateway/raw-client.ts';
import { hasBwrap, pathWithoutBwrap } from '../../needs/bwrap.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { startRegistry } from '../../sandbox/packages/tiny-registry.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { repository } from '../../structure/source-files.ts';
import { waitForCount, waitUntilEmpty } from '../wait-until.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, dataDir, open, use: useAs, journal, close } = createSandboxFolder('hosts');
const garden = join(folder, 'garden');
const address =
  Object.values(networkInterfaces())
    .flat()
    .find((found) => found?.family === 'IPv4' && !found.internal)?.address ?? '127.0.0.1';
/** From a registry of the test, so that no network is needed; the proof takes the one the guides name, from npm's own. */
const published = proof
  ? { name: '@modelcontextprotocol/server-everything', tool: 'get-env' }
  : { name: '@some/server', tool: 'environment' };
const web = createServer((_, answer) => answer.end('reached'));
let place = '';
let gateway: EmbeddedGateway;

beforeAll(async () => {
  mkdirSync(garden);
  writeFileSync(join(garden, 'note'), 'mine');
  await once(web.listen(0, address), 'listening');
  place = `${address}:${(web.address() as { port: number }).port}`;
  const reaching = { command: process.execPath, args: [join(import.meta.dirname, 'reaches-out.js')] };
  const everything = join(repository, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  gateway = await open({
    servers: {
      open: { ...reaching, sandbox: { network: [place] } },
      closed: reaching,
      everything: { command: process.execPath, args: [everything], sandbox: { network: [place] } },
      fresh: { command: 'npx', args: ['-y', 'never-to-be-fetched'] },
      published: { command: 'npx', args: ['-y', published.name] },
      image: { command: 'docker', args: ['run', '-i', '--rm', 'some/image'] },
      repository: { command: 'npx', args: ['-y', 'github:somebody/something'] },
    },
    workspaces: { garden: { path: garden } },
  });
});

afterAll(async () => {
  await close();
  web.close();
});

const use = (server: string, era?: 'modern' | 'handshake') =>
  useAs(server, { userId: 'ada', trustLevel: 'sandboxed', workspaceId: 'garden' }, era);

const sockets = () =>
  readdirSync(join(dataDir, 'tmp'), { recursive: true }).filter((name) => String(name).endsWith('.sock'));

describe.skipIf(!hasBwrap())('a sandboxed server', () => {
  test('reaches the hosts it was granted; what it is refused is in the journal, with its session', async () => {
    const { id, client } = await use('open');
    expect(await client.call('reach', { place })).toContain('reached');
    expect(await client.call('reach', { place })).toContain('reached');
    const metadata = '169.254.169.254:80';
    expect(await client.call('reach', { place: metadata })).toMatch(/^HTTP\/1\.1 403 [\s\S]*not listed/);
    expect(sockets()).toHaveLength(1);
    await gateway.endSession(id);
    const ours = () => journal().filter((entry) => entry['kind'] === 'egress' && entry['sessionId'] === id);
    await waitForCount(() => ours().length, 2, 5000);
    expect(ours()).toMatchObject([
      { event: 'refused', server: 'open', to: metadata, detail: 'not listed' },
      { event: 'closed', server: 'open', allowed: 2, refused: 1, to: `${place} 2` },
    ]);
    await waitUntilEmpty(sockets, 5000);
  });

  test('reaches no host where none was granted', async () => {
    const { client } = await use('closed');
    expect(await client.call('reach', { place })).toBe('no proxy');
    expect(sockets()).toEqual([]);
  });

  test('of a third party, started as a file, finds its proxy in the environment', async () => {
    const { client } = await use('everything', 'handshake');
    const told = JSON.parse(await client.call('get-env')) as Record<string, string>;
    expect(told).toMatchObject({ HTTPS_PROXY: 'http://127.0.0.1:3128', NODE_USE_ENV_PROXY: '1', TMPDIR: '/tmp' });
  });

  /** The server tells its environment, and it is that of a sandbox. */
  async function expectToRun(client: RawClient) {
    const told = JSON.parse(await client.call(published.tool)) as Record<string, string> & { env?: typeof told };
    expect(told.env ?? told).toMatchObject({ AMBIT_TRUST_LEVEL: 'sandboxed', HOME: '/tmp/home' });
  }

  /** The npm settings of this test. */
  async function offerPackage() {
    const registry = await startRegistry();
    onTestFinished(() => {
      vi.unstubAllEnvs();
      registry.stop();
    });
    const program = readFileSync(join(import.meta.dirname, 'tells-environment.cjs'), 'utf8');
    registry.publish({ name: published.name, version: '1.0.0', bin: 'some.js' }, { 'some.js': program });
    vi.stubEnv('npm_config_registry', registry.url);
    vi.stubEnv('npm_config_cache', join(folder, 'npm-cache'));
  }

  test('that is a package is fetched in one sandbox and runs in another, and sees nothing of the host', async () => {
    if (!proof) await offerPackage();
    const { client } = await use('published', 'handshake');
    await expectToRun(client);
    const [kept] = readdirSync(join(dataDir, 'packages'));
    const { pin } = JSON.parse(readFileSync(join(dataDir, 'packages', kept as string, 'pin.json'), 'utf8'));
    expect(pin).toEqual({
      name: published.name,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      integrity: expect.stringMatching(/^sha512-/),
    });
    expect(existsSync(join(garden, 'node_modules'))).toBe(false);
  });

  test.runIf(proof && hasPodman())(
    'of a third party, by npx or as a file, runs in a container where there is no bwrap',
    async () => {
      const bin = join(folder, 'bin');
      mkdirSync(bin);
      // Without npm: what was fetched once is not asked for again.
      for (const name of ['podman', 'runc', 'node'])
        symlinkSync(findProgramOnPath(name, process.env['PATH']) ?? '/dev/null', join(bin, name));
      vi.stubEnv('PATH', bin);
      onTestFinished(() => void vi.unstubAllEnvs());
      const [pack, file] = await Promise.all([use('published', 'handshake'), use('everything', 'handshake')]);
      await expectToRun(pack.client);
      const told = JSON.parse(await file.client.call('get-env')) as Record<string, string>;
      expect(told).toMatchObject({
        AMBIT_SESSION_ID: file.id,
        HTTPS_PROXY: 'http://127.0.0.1:3128',
        HOSTNAME: 'sandbox',
      });
      const runners = () =>
        journal().flatMap(({ event, sessionId, runner }) =>
          event === 'started' && [pack.id, file.id].includes(sessionId as string) ? [runner] : [],
        );
      await waitForCount(() => runners().length, 2, 5000);
      expect(runners()).toEqual(['container', 'container']);
    },
  );

  test('is neither fetched nor started without bwrap and a container engine; the error says what to install', async () => {
    vi.stubEnv('PATH', pathWithoutBwrap);
    onTestFinished(() => void vi.unstubAllEnvs());
    const there = () => [...readdirSync(join(dataDir, 'packages')), ...sockets()].sort();
    const before = there();
    for (const server of ['open', 'fresh']) {
      const { id, client } = await use(server);
      const said = await client.call('reach', { place });
      expect(said).toMatch(/^SANDBOX_UNAVAILABLE: .*"bwrap" was not found on the PATH.*Install bubblewrap/s);
      const events = () => journal().flatMap((entry) => (entry['sessionId'] === id ? [entry['event']] : []));
      await until(
        () => events().includes('start-failed'),
        5000,
        () => `only: ${events()}`,
      );
      expect(events()).not.toContain('started');
    }
    expect(there()).toEqual(before);
  });

  test.each([
    ['image', /"docker" would start the server outside of the sandbox.*sandbox: \{ image: … \}/],
    ['repository', /"github:somebody\/something" is not the name of a package.*npx -y some-package@1\.2\.3/],
  ])('that cannot be pinned is refused, and the error says what to write instead: %s', async (server, reason) => {
    const { client } = await use(server);
    expect(await client.call('anything')).toMatch(/^SANDBOX_UNAVAILABLE: /);
    expect(await client.call('anything')).toMatch(reason);
  });
});
