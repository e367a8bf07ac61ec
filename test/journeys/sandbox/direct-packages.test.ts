import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startRegistry, type TinyRegistry } from '../../sandbox/packages/tiny-registry.ts';
import { taggedProcesses, until } from '../../sandbox/tagged-processes.ts';
import { spawnRun } from '../start-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, dataDir, open, use, close } = createSandboxFolder('direct-packages');
const [garden, home] = [join(folder, 'garden'), join(folder, 'home')];
const program = readFileSync(join(import.meta.dirname, 'tells-environment.cjs'), 'utf8');
const hostile = `${program.replace('{ env:', '{ hostile: true, env:')}`;
let registry: TinyRegistry;

beforeAll(async () => {
  registry = await startRegistry();
  registry.publish({ name: '@some/server', version: '1.0.0', bin: 'some.js' }, { 'some.js': program });
  registry.publish({ name: '@some/other', version: '1.0.0', bin: 'some.js' }, { 'some.js': program });
  mkdirSync(home);
  const local = join(garden, 'node_modules/@some/server');
  mkdirSync(local, { recursive: true });
  writeFileSync(join(local, 'some.js'), hostile, { mode: 0o755 });
  writeFileSync(join(local, 'package.json'), '{"name":"@some/server","version":"9.0.0","bin":"some.js"}');
  writeFileSync(join(garden, '.npmrc'), 'registry=http://127.0.0.1:9\n');
});

afterAll(async () => {
  await close();
  registry.stop();
});

const settings = () => ({ HOME: home, npm_config_registry: registry.url, HTTP_PROXY: '', http_proxy: '' });
const tarballsAsked = () => registry.asked.filter((path) => path.startsWith('-/')).length;
const untilAsked = (times: number) =>
  until(
    () => tarballsAsked() === times,
    30_000,
    () => `asked: ${registry.asked}`,
  );

describe('a package in a direct session', () => {
  test('is installed before the time for its start begins, and the workspace has no say', async () => {
    for (const [name, value] of Object.entries(settings())) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const gateway = await open({
      processes: { startSeconds: 1 },
      servers: {
        published: { command: 'npx', args: ['-y', '@some/server', '--flag'] },
        other: { command: 'npx', args: ['-y', '@some/other'] },
        silent: { command: process.execPath, args: ['-e', 'process.stdin.resume()'], era: 'handshake' },
      },
      workspaces: { garden: { path: garden } },
    });
    const draft = { userId: 'ada', trustLevel: 'direct', workspaceId: 'garden' } as const;
    const release = registry.holdTarballs();
    const asked = tarballsAsked();
    const using = use('published', draft, 'handshake');
    await untilAsked(asked + 1);
    // This server begins later and has its whole time.
    const { client: silent } = await use('silent', draft);
    expect(await silent.call('anything')).toMatch(/^UPSTREAM_/);
    release();
    const { client } = await using;
    const told = JSON.parse(await client.call('environment'));
    expect(told).toMatchObject({
      args: ['--flag'],
      version: '1.0.0',
      env: { AMBIT_TRUST_LEVEL: 'direct', HOME: home },
    });
    expect(told).not.toHaveProperty('hostile');
    expect(readdirSync(home)).toEqual([]);

    // A gateway that ends does not wait for an installation.
    onTestFinished(registry.holdTarballs());
    const ended = use('other', draft, 'handshake');
    await untilAsked(asked + 2);
    await client.close();
    await gateway.close();
    await ended;
    expect(taggedProcesses(dataDir)).toEqual([]);
  });

  test('is installed by the next start, when Ambit is killed meanwhile', async () => {
    const own = join(folder, 'run');
    mkdirSync(own);
    const start = () => {
      const child = spawnRun(own, ['npx', '-y', '@some/server'], { env: settings() });
      const lines = createInterface({ input: child.stdout });
      const send = (id: number, method: string, params: object) =>
        child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      send(1, 'initialize', {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'x', version: '1' },
      });
      return { child, lines, send };
    };
    const release = registry.holdTarballs();
    onTestFinished(release);
    const asked = tarballsAsked();
    const { child: killed } = start();
    await untilAsked(asked + 1);
    killed.kill('SIGKILL');
    await waitUntilEmpty(() => taggedProcesses(join(own, 'data')), 20_000);
    const packages = join(own, 'data/packages-direct');
    const [lock] = readdirSync(packages).filter((name) => name.endsWith('.lock'));
    // As old as it is some seconds later.
    utimesSync(join(packages, lock as string), 1, 1);

    release();
    const { child, lines, send } = start();
    const [opened] = (await once(lines, 'line')) as [string];
    expect(JSON.parse(opened)).toMatchObject({ result: { serverInfo: { version: '1.0.0' } } });
    send(2, 'tools/call', { name: 'environment', arguments: {} });
    const [answered] = (await once(lines, 'line')) as [string];
    expect(JSON.parse(answered)).toMatchObject({ id: 2, result: { content: [{ type: 'text' }] } });
    child.stdin.end();
    await once(child, 'exit');
    expect(existsSync(join(home, '.npm'))).toBe(false);
    const contents = readdirSync(packages, { recursive: true }).filter((name) =>
      /\/content-[0-9a-f]+$/.test(`${name}`),
    );
    expect(contents).toHaveLength(1);
  });
});
