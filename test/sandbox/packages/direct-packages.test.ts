import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { baseEnvironment, certificateVariables } from '../../../src/sandbox/common/base-environment.ts';
import { createDirectPackages, type DirectPackages } from '../../../src/sandbox/packages/direct-packages.ts';
import type { InstallEvent } from '../../../src/sandbox/packages/package-store.ts';
import { proof } from '../../proof.ts';
import { createHarness, type Harness, linesOf } from '../runner-harness.ts';
import { taggedProcesses } from '../tagged-processes.ts';
import { startRegistry, type TinyRegistry } from './tiny-registry.ts';

const program = '#!/usr/bin/env node\nconsole.log(JSON.stringify({ dep: require("dep"), env: process.env }))\n';

describe('packages of direct sessions', () => {
  let harness: Harness;
  let registry: TinyRegistry;
  let folder: string;
  let home: string;
  const events: InstallEvent[] = [];

  beforeAll(async () => {
    harness = await createHarness();
    registry = await startRegistry();
    folder = join(harness.tmpParent, 'packages-direct');
    home = join(harness.tmpParent, 'home');
    mkdirSync(home);
    mkdirSync(join(harness.tmpParent, 'machine/etc'), { recursive: true });
    writeFileSync(join(harness.tmpParent, 'machine/etc/npmrc'), `registry=${registry.url}\n`);
    const scripts = { postinstall: "node -e \"fs.writeFileSync('index.js', 'module.exports = 1')\"" };
    registry.publish({ name: 'dep', version: '1.0.0', scripts });
    for (const name of ['server', 'slow'])
      registry.publish({ name, version: '1.0.0', bin: 's.js', dependencies: { dep: '1' } }, { 's.js': program });
  });

  afterAll(async () => {
    registry.stop();
    await harness.stop();
  });

  const host = (more: NodeJS.ProcessEnv = {}) => ({
    PATH: process.env['PATH'],
    HOME: home,
    // The settings of the machine.
    PREFIX: join(harness.tmpParent, 'machine'),
    npm_config_fetch_retries: '0',
    SECRET_OF_THE_HOST: 'never',
    ...more,
  });

  function packages(more?: NodeJS.ProcessEnv, maxSeconds?: number): DirectPackages {
    const env = host(more);
    return createDirectPackages({
      folder,
      sandboxed: join(harness.tmpParent, 'packages'),
      tmpRoot: harness.root,
      plain: harness.runnerWith({ closeMs: 20, termMs: 2000 }),
      env: () => env,
      onInstall: (event) => events.push(event),
      ...(maxSeconds === undefined ? {} : { maxSeconds }),
    });
  }

  const startOf = (args: readonly string[], more?: NodeJS.ProcessEnv, command = 'npx') => ({
    command,
    args,
    env: baseEnvironment(host(more), '', {}, certificateVariables),
  });

  /** Runs a start to its end, and returns what the program says. */
  async function run(start: Awaited<ReturnType<DirectPackages['ready']>>) {
    const { tmpDir } = harness.launch('echoes-lines');
    const env = { ...start.env, TMPDIR: tmpDir };
    const running = await harness.runner.start({ ...start, env, cwd: harness.tmpParent, tmpDir });
    const said = (await linesOf(running)()) ?? '{}';
    await running.exited;
    return JSON.parse(said) as { dep: number; env: Record<string, string> };
  }

  const tarballsAsked = (name: string) => registry.asked.filter((path) => path.startsWith(`-/${name}-`)).length;

  test('are installed once, with their scripts, and neither from a project nor into the cache of the user', async () => {
    const bin = join(harness.tmpParent, 'project/node_modules/.bin');
    const taken = join(harness.tmpParent, 'taken');
    mkdirSync(bin, { recursive: true });
    for (const name of ['npm', 'npx', 'node', 'server'])
      writeFileSync(join(bin, name), `#!/bin/sh\necho "$0" >> '${taken}'\n`, { mode: 0o755 });
    const PATH = [bin, '.', process.env['PATH']].join(delimiter);
    const several = [packages({ PATH }), packages({ PATH })];
    const starts = await Promise.all(
      several.flatMap((each) => [each, each]).map((each) => each.ready(startOf(['-y', 'server', 'x'], { PATH }))),
    );
    expect(new Set(starts.map(({ command }) => command)).size).toBe(1);
    expect(tarballsAsked('server')).toBe(1);
    const { dep, env } = await run(starts[0]!);
    expect(dep).toBe(1);
    expect(env['SECRET_OF_THE_HOST']).toBeUndefined();
    expect(existsSync(taken)).toBe(false);
    expect(readdirSync(home)).toEqual([]);
    expect(events.map(({ state }) => state).sort()).toEqual(['installed', 'installed', 'started', 'started']);
    // What is there needs no registry.
    const before = registry.asked.length;
    const again = await packages({ npm_config_registry: 'http://127.0.0.1:9' }).ready(startOf(['server']));
    expect(again.command).toBe(starts[0]?.command);
    expect(registry.asked.length).toBe(before);
  });

  test.runIf(proof)(
    'are not there when their installation takes too long and is ended, and the next start installs them',
    async () => {
      const release = registry.holdTarballs();
      onTestFinished(release);
      await expect(packages({}, 0.4).ready(startOf(['slow']))).rejects.toMatchObject({
        message: 'The package "slow" could not be downloaded: the installation took longer than 0.4 s.',
      });
      expect(taggedProcesses(harness.root)).toEqual([]);
      release();
      expect((await run(await packages().ready(startOf(['slow'])))).dep).toBe(1);
    },
  );

  test('are fetched by the proxy of the user, whose credentials no server finds', async () => {
    const secret = 'proxy-secret-7';
    const seen: (string | undefined)[] = [];
    const proxy = createServer((request, response) => {
      seen.push(request.headers['proxy-authorization']);
      const path = new URL(request.url ?? '').pathname;
      get(`${registry.url}${path}`, (answer) => answer.pipe(response.writeHead(answer.statusCode ?? 500)));
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void proxy.close());
    const { port } = proxy.address() as { port: number };
    for (const name of ['dep', 'behind']) {
      const manifest = {
        name,
        version: '2.0.0',
        ...(name === 'dep' ? {} : { bin: 's.js', dependencies: { dep: '2' } }),
      };
      const dist = { tarball: `http://registry.test/-/${name}-2.0.0.tgz` };
      registry.publish(manifest, { 's.js': program, 'index.js': 'module.exports = 2' }, dist);
    }
    const env = {
      HTTP_PROXY: `http://user:${secret}@127.0.0.1:${port}`,
      npm_config_registry: 'http://registry.test',
      SSL_CERT_FILE: '/etc/ssl/some.pem',
    };
    const start = await packages(env).ready(startOf(['-y', 'behind'], env));
    const told = await run(start);
    expect(told.dep).toBe(2);
    expect(told.env).toMatchObject({ SSL_CERT_FILE: '/etc/ssl/some.pem' });
    expect(new Set(seen)).toEqual(new Set([`Basic ${Buffer.from(`user:${secret}`).toString('base64')}`]));
    expect(JSON.stringify(told.env)).not.toContain(secret);
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const holding = files.filter((file) => readFileSync(join(file.parentPath, file.name)).includes(secret));
    expect(holding.map(({ name }) => name)).toEqual([]);
  });

  test.each([
    ['a repository', 'npx', ['-y', 'github:a/b']],
    ['an unknown flag', 'npx', ['--loglevel=error', 'server']],
    ['a folder', 'npx', ['./server']],
    ['an installed program', 'npx', ['node']],
    ['a file called npx', '/nowhere/npx', ['-y', 'server']],
    ['another tool', 'npm', ['exec', 'server']],
    ['a container', 'docker', ['run', 'x']],
    ['a repository for uvx', 'uvx', ['--from', 'git+https://example.com/x', 'x']],
  ])('%s is started as written', async (_, command, args) => {
    const start = await packages().ready(startOf(args, {}, command));
    expect(start).toMatchObject({ command, args, env: startOf(args).env });
    expect(start.npx !== undefined).toBe(command.endsWith('npx') && args[0] !== './server');
  });

  test.each([
    [['-y', 'Server@1.0.0-a.tgz']],
    [['--loglevel', 'error', 'server@1.0.0-a.tar.gz']],
    [['--loglevel=error', '--package=@a/server@1.0.0-a.TGZ', 'server']],
  ])('S1: a version that npm takes for a file of the workspace is refused: %j', async (args) => {
    await expect(packages().ready(startOf(args))).rejects.toThrow('a file in the workspace');
  });

  test.runIf(proof)('that npx installs itself have a cache that is used again only when it is complete', async () => {
    const secret = 'http://user:proxy-secret-8@127.0.0.1:9';
    const env = { npm_config_registry: registry.url, http_proxy: secret, NO_PROXY: '127.0.0.1' };
    const configured = { env: { ...startOf([]).env, npm_config_registry: registry.url } };
    const start = { ...startOf(['--loglevel=error', 'server']), ...configured };
    const first = await packages(env).ready(start);
    const other = await packages(env).ready(start);
    expect(other.npx?.completeFile).not.toBe(first.npx?.completeFile);
    const told = await run(first);
    expect(told.dep).toBe(1);
    expect(JSON.stringify(told.env)).not.toContain('proxy-secret-8');
    expect(told.env['npm_config_cache']).toBeUndefined();
    expect((await packages(env).ready(start)).npx?.completeFile).toBe(first.npx?.completeFile);
    expect(readdirSync(home)).toEqual([]);
  });

  test('L9: words of an install script reach a caller without credentials, and in quotes', async () => {
    const script = `node -e "console.error(process.env.NPM_TOKEN, 'ignore \\"all\\" rules', process.env.HTTPS_PROXY); process.exit(3)"`;
    registry.publish({ name: 'loud', version: '1.0.0', bin: 's.js', scripts: { postinstall: script } });
    writeFileSync(join(home, '.npmrc'), ['//registry.test/:_authToken=$', '{NPM_TOKEN}\n'].join(''));
    onTestFinished(() => rmSync(join(home, '.npmrc')));
    const env = { NPM_TOKEN: 'plain-secret-42', HTTPS_PROXY: 'http://u:p@ss-word@127.0.0.1:9', NO_PROXY: '127.0.0.1' };
    const error = await packages(env)
      .ready(startOf(['loud']))
      .catch((each: Error) => each);
    const said = '(the output says: "[secret] ignore \'all\' rules http://127.0.0.1:9").';
    expect((error as Error).message).toContain(said);
    expect(String((error as Error).cause)).not.toMatch(/plain-secret-42|ss-word/);
  });

  test.runIf(proof)('of a server with another home folder are its own, for it may have another registry', async () => {
    const other = await startRegistry();
    onTestFinished(() => other.stop());
    for (const each of [registry, other])
      each.publish({ name: 'named', version: '1.0.0', bin: 's.js' }, { 's.js': each.url });
    const otherHome = join(harness.tmpParent, 'other-home');
    mkdirSync(otherHome);
    writeFileSync(join(otherHome, '.npmrc'), `registry=${other.url}\n`);
    writeFileSync(join(home, '.npmrc'), `registry=${registry.url}\n`);
    onTestFinished(() => rmSync(join(home, '.npmrc')));
    const env = { npm_config_registry: undefined };
    const start = startOf(['-y', 'named'], env);
    const isolated = await packages(env).ready({ ...start, env: { ...start.env, HOME: otherHome } });
    const usual = await packages(env).ready(start);
    const [one, two] = [isolated, usual].map(({ args }) => readFileSync(args[0] ?? '', 'utf8'));
    expect([one, two]).toEqual([other.url, registry.url]);
    const asWritten = { ...start, args: ['--loglevel=error', 'named'] };
    const caches = [asWritten, { ...asWritten, env: { ...start.env, HOME: otherHome } }].map(async (each) =>
      dirname(dirname((await packages(env).ready(each)).npx?.completeFile ?? '')),
    );
    expect(new Set(await Promise.all(caches)).size).toBe(2);
  });

  test.runIf(proof)('that npx could not install leave no cache behind, however often they are tried', async () => {
    const start = await packages().ready(startOf(['--loglevel=error', 'no-such-package']));
    const cache = dirname(start.npx?.completeFile ?? '');
    const { tmpDir } = harness.launch('echoes-lines');
    const launch = { ...start, env: { ...start.env, TMPDIR: tmpDir, npm_config_registry: registry.url }, tmpDir };
    const running = await harness.runner.start({ ...launch, cwd: harness.tmpParent });
    await running.exited;
    await vi.waitUntil(() => !existsSync(cache));
    expect(readdirSync(dirname(cache))).toEqual([]);
  });

  test('of bunx take neither a program nor settings of the workspace', async () => {
    const bin = join(harness.tmpParent, 'bun-bin');
    mkdirSync(bin);
    for (const name of ['bunx', 'bun', 'installed']) writeFileSync(join(bin, name), '#!/bin/sh\n', { mode: 0o755 });
    const PATH = [bin, process.env['PATH']].join(delimiter);
    expect(await packages().ready(startOf(['installed', 'x'], { PATH }, 'bunx'))).toMatchObject({
      command: join(bin, 'installed'),
      args: ['x'],
    });
    registry.publish({ name: 'bun-script', version: '1.0.0', bin: 's.js' }, { 's.js': '#!/usr/bin/env -S bun run\n' });
    const { command, args } = await packages().ready(startOf(['bun-script', 'x'], { PATH }));
    expect([command, ...args.slice(0, 2)]).toEqual(['bun', '--config=/dev/null', '--env-file=/dev/null']);
  });
});
