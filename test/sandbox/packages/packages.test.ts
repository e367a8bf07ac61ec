import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { createDirectPackages } from '../../../src/sandbox/packages/direct-packages.ts';
import { readPackageCommand } from '../../../src/sandbox/packages/package-command.ts';
import {
  createPackages,
  explainFetchFailure,
  type Packages,
  readPackagePin,
} from '../../../src/sandbox/packages/packages.ts';
import type { SandboxRunner } from '../../../src/sandbox/runner.ts';
import { proof } from '../../proof.ts';
import { createHarness, type Harness } from '../runner-harness.ts';
import { startRegistry, type TinyRegistry } from './tiny-registry.ts';

const says = (words: string) => `#!/usr/bin/env node\nconsole.log(${JSON.stringify(words)})\n`;

describe('packages that servers are started from', () => {
  let harness: Harness;
  let registry: TinyRegistry;
  let folder: string;
  let mark: string;
  let sandbox: SandboxRunner;

  beforeAll(async () => {
    harness = await createHarness();
    registry = await startRegistry();
    sandbox = createBwrapRunner({ reaper: harness.reaper, tmpRoot: harness.root });
    folder = join(harness.tmpParent, 'packages');
    mark = join(harness.tmpParent, 'ran');
  });

  afterAll(async () => {
    registry.stop();
    await harness.stop();
  });

  const hostEnvironment = (path = process.env['PATH']) => ({
    PATH: path,
    HOME: harness.tmpParent,
    npm_config_registry: registry.url,
    npm_config_fetch_retries: '0',
    npm_config_ignore_scripts: 'false',
    // As it is where npx has started Ambit.
    npm_config_local_prefix: '/',
    SECRET_OF_THE_HOST: 'never',
  });

  function packages(path?: string): Packages {
    const env = hostEnvironment(path);
    return createPackages({
      folder,
      sandbox: async () => sandbox,
      tmpRoot: harness.root,
      env: () => env,
    });
  }

  const run = ({ command, args }: { command: string; args: readonly string[] }) =>
    execFileSync(command, args, { encoding: 'utf8' }).trim();

  const tarballsAsked = (name: string) => registry.asked.filter((path) => path.startsWith(`-/${name}-`)).length;

  test('are fetched once, however many ask at the same time, and nothing of them is run', async () => {
    const scripts = Object.fromEntries(
      ['preinstall', 'install', 'postinstall', 'prepare'].map((name) => [name, `touch ${mark}`]),
    );
    registry.publish({ name: 'dep', version: '1.0.0', scripts }, { 'index.js': 'module.exports = "of dep"' });
    registry.publish(
      {
        name: '@s/server',
        version: '1.0.0',
        bin: { server: 'bin/server.js' },
        scripts,
        dependencies: { dep: '^1.0.0' },
        // A mirror may lack what is for other systems.
        optionalDependencies: { 'dep-for-another-system': '1.0.0' },
      },
      { 'bin/server.js': '#!/usr/bin/env node\nconsole.log("one", require("dep"), process.argv[2])\n' },
    );
    const several = [packages(), packages(), packages()];
    const all = await Promise.all(
      several.flatMap((each) => [each, each]).map((each) => each.ready('npx', ['-y', '@s/server', 'x'])),
    );
    expect(new Set(all.map(({ command }) => command)).size).toBe(1);
    expect(tarballsAsked('@s-server')).toBe(1);
    expect(run(all[0] as { command: string; args: string[] })).toBe('one of dep x');
    expect(existsSync(mark)).toBe(false);
    expect(readdirSync(harness.root).filter((name) => name.startsWith('fetch-'))).toEqual([]);
  });

  test('stay what they were when there is a newer one, and also when they have to be fetched again', async () => {
    const pin = readPackagePin(folder, 'npx', ['-y', '@s/server']);
    expect(pin).toEqual({ name: '@s/server', version: '1.0.0', integrity: expect.stringMatching(/^sha512-/) });
    registry.publish({ name: '@s/server', version: '2.0.0', bin: 'server.js' }, { 'server.js': says('two') });
    registry.publish({ name: 'dep', version: '1.1.0' }, { 'index.js': 'module.exports = "of newer dep"' });
    const first = await packages().ready('npx', ['@s/server', 'again']);
    expect(run(first)).toBe('one of dep again');
    const content = first.command.replace(/\/node_modules\/.*$/, '');
    const home = dirname(content);
    // As an older Ambit has left it, which checked less.
    const { pin: known, content: name } = JSON.parse(readFileSync(join(home, 'pin.json'), 'utf8'));
    writeFileSync(join(home, 'pin.json'), JSON.stringify({ pin: known, content: name }));
    writeFileSync(join(content, 'node_modules/loot'), '');
    // As a fetch leaves it that was cut short, with the lock of somebody who died.
    mkdirSync(join(home, 'content-half'));
    writeFileSync(`${home}.lock`, '1 x');
    utimesSync(`${home}.lock`, 1, 1);
    expect(run(await packages().ready('npx', ['@s/server', 'restored']))).toBe('one of dep restored');
    expect(readPackagePin(folder, 'npx', ['@s/server'])).toEqual(pin);
    expect(readdirSync(home).filter((each) => each.startsWith('content-'))).toHaveLength(1);
    expect(existsSync(`${home}.lock`)).toBe(false);
    expect(existsSync(content)).toBe(false);
    // A direct session gets the same version, installed apart.
    const direct = createDirectPackages({
      ...{ folder: `${folder}-direct`, sandboxed: folder, tmpRoot: harness.root, plain: harness.runner },
      env: () => hostEnvironment(),
    });
    const start = await direct.ready({
      command: 'npx',
      args: ['@s/server', 'direct'],
      env: { PATH: process.env['PATH']! },
    });
    expect(start.command.startsWith(`${folder}-direct/`)).toBe(true);
    expect(run(start)).toBe('one of dep direct');
    expect(existsSync(mark)).toBe(true);
  });

  test.runIf(proof)(
    'asked for by a range and one of their programs are settled then, and need no registry after',
    async () => {
      const bin = { one: 'one.js', other: 'other.js' };
      const files = { 'one.js': says('one'), 'other.js': says('other') };
      const publish = (version: string) => registry.publish({ name: '@s/many', version, bin }, files);
      for (const version of ['1.0.0', '1.4.0', '2.0.0']) publish(version);
      const asked = [{ args: ['-y', '-p', '@s/many@^1', 'other'], version: '1.4.0', said: 'other' }];
      for (const { args, version, said } of asked) {
        expect(run(await packages().ready('npx', args))).toBe(said);
        expect(readPackagePin(folder, 'npx', args)).toMatchObject({ name: '@s/many', version });
      }
      for (const version of ['1.5.0', '3.0.0']) publish(version);
      const before = registry.asked.length;
      for (const { args, version, said } of asked) {
        expect(run(await packages('/nonexistent').ready('npx', args))).toBe(said);
        expect(readPackagePin(folder, 'npx', args)).toMatchObject({ version });
      }
      expect(registry.asked.length).toBe(before);
    },
  );

  test.each([
    ['npm error code EINTEGRITY\nnpm error sha512-a/404+b differs, log 20_01_22_404Z', 'npm says EINTEGRITY'],
    ['npm error code E404\nnpm error 404 Not Found - GET http://127.0.0.1:40412/x', 'there is no such package'],
    ['error: HTTP status client error (404 Not Found) for url', 'there is no such package'],
  ])('that cannot be downloaded say why: %j', (said, why) => {
    const wanted = readPackageCommand('npx', ['swapped'])!;
    expect(explainFetchFailure(wanted, new Error(said)).message).toContain(why);
  });

  test('that differ from their pin are not kept', async () => {
    registry.publish({ name: 'swapped', version: '1.0.0', bin: 's.js' }, { 's.js': says('good') });
    registry.swap('swapped', '1.0.0', {
      'package.json': '{"name":"swapped","version":"1.0.0","bin":"s.js"}',
      's.js': says('evil'),
    });
    await expect(packages().ready('npx', ['swapped'])).rejects.toMatchObject({
      code: 'UPSTREAM_FAILED',
      message: expect.stringMatching(/"swapped" could not be downloaded: npm says EINTEGRITY/),
    });
    expect(readPackagePin(folder, 'npx', ['swapped'])).toBeUndefined();
    expect(homeOf('swapped').filter((name) => name.startsWith('content-'))).toEqual([]);
  });

  const homeOf = (name: string) =>
    readdirSync(folder)
      .filter((each) => each.startsWith(`npx-${name}-`) && !each.endsWith('.lock'))
      .flatMap((each) => readdirSync(join(folder, each)));

  test('report a missing package or tool', async () => {
    const none = packages('/nonexistent');
    await expect(none.ready('npx', ['never-fetched'])).rejects.toMatchObject({
      message: expect.stringContaining('"npm" was not found on the PATH'),
      hint: 'Install Node with npm, which includes npx.',
    });
    await expect(none.ready('uvx', ['x'])).rejects.toMatchObject({ hint: 'Install uv, which includes uvx.' });
    await expect(none.ready('bunx', ['x'])).rejects.toMatchObject({ hint: expect.stringContaining('Install Bun') });
    await expect(packages().ready('npx', ['unknown-here'])).rejects.toMatchObject({
      message: 'The package "unknown-here" could not be downloaded: there is no such package.',
    });
    expect(await none.ready('node', ['x.js'])).toEqual({ command: 'node', args: ['x.js'] });
    // A uv that finds no Python: the failure is about the package, not about uvx alone.
    const bin = join(harness.tmpParent, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'uv'), '#!/bin/sh\nexit 2\n', { mode: 0o755 });
    await expect(packages(bin).ready('uvx', ['mcp-server-time@1.2'])).rejects.toMatchObject({
      message: expect.stringMatching(/^The package "mcp-server-time@1\.2" could not be downloaded: There is no Python/),
      hint: expect.stringContaining('uv python install'),
    });
  });
});
