import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { bunKind } from '../../../src/sandbox/packages/bun-kind.ts';
import { npmKind } from '../../../src/sandbox/packages/npm-kind.ts';
import type { PackageCommand } from '../../../src/sandbox/packages/package-command.ts';
import { findNpmProgram } from '../../../src/sandbox/packages/package-kind.ts';
import { uvKind } from '../../../src/sandbox/packages/uv-kind.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-programs-')));
const home = join(folder, 'node_modules/@s/two');
afterAll(() => rmSync(folder, { recursive: true }));

function write(bin: unknown): void {
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'package.json'), JSON.stringify({ name: '@s/two', bin }));
  writeFileSync(join(home, 'a.js'), '#!/usr/bin/env node\n');
  writeFileSync(join(home, 'b.js'), 'b');
  writeFileSync(join(folder, 'outside.js'), '#!/bin/sh\n');
}

const wanted = (given: Partial<PackageCommand> = {}): PackageCommand => ({
  ...{ tool: 'npx', name: '@s/two', wanted: '', program: undefined, runtime: undefined, args: ['x'] },
  ...given,
});

test('the program of a package is the one named, the only one, or the one called like it', () => {
  const [a, b] = [join(home, 'a.js'), join(home, 'b.js')];
  write('./a.js');
  expect(findNpmProgram(wanted(), folder)).toEqual({ command: a, args: ['x'] });
  write({ other: 'b.js' });
  expect(findNpmProgram(wanted(), folder)).toEqual({ command: 'node', args: [b, 'x'] });
  write({ one: 'b.js', two: 'a.js' });
  expect(findNpmProgram(wanted(), folder)).toEqual({ command: a, args: ['x'] });
  expect(findNpmProgram(wanted({ program: 'one' }), folder)).toEqual({ command: 'node', args: [b, 'x'] });
  // Bun would obey bunfig.toml and .env of the workspace.
  expect(findNpmProgram(wanted({ tool: 'bunx', runtime: 'bun' }), folder)).toEqual({
    command: 'bun',
    args: ['--config=/dev/null', '--env-file=/dev/null', a, 'x'],
  });
});

test('several names of one program are one program', () => {
  write({ other: './a.js', third: './a.js' });
  expect(findNpmProgram(wanted(), folder)).toEqual({ command: join(home, 'a.js'), args: ['x'] });
});

test('the error lists the programs of a package', () => {
  write({ one: 'a.js', other: 'b.js' });
  expect(() => findNpmProgram(wanted(), folder)).toThrow(/does not have one program to start; it has one, other\./);
  expect(() => findNpmProgram(wanted({ program: 'x' }), folder)).toThrow(
    /does not have a program "x"; it has one, other\./,
  );
  write(undefined);
  expect(() => findNpmProgram(wanted(), folder)).toThrow(/does not have one program to start\./);
});

test('a program outside of the package is refused', () => {
  for (const bin of ['../../../outside.js', '../../../../../../../../etc/passwd', '.']) {
    write({ two: bin });
    expect(() => findNpmProgram(wanted(), folder), bin).toThrow(/does not have/);
  }
  write({ two: 'link.js' });
  symlinkSync(join(folder, 'outside.js'), join(home, 'link.js'));
  expect(() => findNpmProgram(wanted(), folder)).toThrow(/does not have/);
});

test('S1: a manifest or lock file that is too large, or is a link, is refused by its name and not read', () => {
  write('./a.js');
  truncateSync(join(home, 'package.json'), 68 << 20);
  expect(() => findNpmProgram(wanted(), folder)).toThrow(
    '"node_modules/@s/two/package.json" of the package is larger than 1 MiB, which is the limit.',
  );
  rmSync(join(home, 'package.json'));
  writeFileSync(join(folder, 'outside.json'), '{"bin":"a.js"}');
  symlinkSync(join(folder, 'outside.json'), join(home, 'package.json'));
  expect(() => findNpmProgram(wanted(), folder)).toThrow(
    '"node_modules/@s/two/package.json" of the package is not a regular file',
  );
  rmSync(home, { recursive: true });
  const locks = [
    [npmKind, 'package-lock.json'],
    [bunKind, 'bun.lock'],
    [uvKind, 'requirements.txt'],
  ] as const;
  for (const [kind, lock] of locks) {
    writeFileSync(join(folder, lock), '');
    truncateSync(join(folder, lock), 68 << 20);
    expect(() => kind.readPin(wanted(), folder)).toThrow(`"${lock}" of the package is larger than 16 MiB`);
    expect(() => kind.checkLock(folder, {} as never)).toThrow(`"${lock}" of the package is larger than 16 MiB`);
    rmSync(join(folder, lock));
  }
});

test('bun and uv say in their own files what they fetched', () => {
  writeFileSync(
    join(folder, 'bun.lock'),
    '{\n  "packages": {\n    "@s/two": ["@s/two@1.2.3", "", { "bin": { "two": "a.js" } }, "sha512-abc+/="],\n  }\n}\n',
  );
  const bun = wanted({ tool: 'bunx' });
  expect(bunKind.readPin(bun, folder)).toEqual({ name: '@s/two', version: '1.2.3', integrity: 'sha512-abc+/=' });
  writeFileSync(
    join(folder, 'requirements.txt'),
    'anyio==4.1 \\\n    --hash=sha256:1\nSome-Server==2.0 \\\n    --hash=sha256:2\n',
  );
  const uv = wanted({ tool: 'uvx', name: 'some_server[cli]' });
  expect(uvKind.readPin(uv, folder)).toMatchObject({ version: '2.0', integrity: expect.stringMatching(/^sha256-/) });
  expect(() => uvKind.readPin(wanted({ tool: 'uvx', name: 'server' }), folder)).toThrow(/did not report/);
});

test('bun and uv are told to run no scripts, to build nothing and to keep to the hashes', async () => {
  const calls = async (kind: Pick<typeof bunKind, 'resolve' | 'install'>, given: PackageCommand) => {
    const made = mkdtempSync(join(folder, 'fetched-'));
    const ran: string[] = [];
    const run = async (args: readonly string[]) => void ran.push(args.join(' '));
    await kind.resolve(given, made, run);
    await kind.install(given, made, run);
    return ran;
  };
  const [added, restored] = await calls(bunKind, wanted({ tool: 'bunx', wanted: '1.2.3' }));
  expect(added).toMatch(/^add --ignore-scripts .*--lockfile-only --exact @s\/two@1\.2\.3$/);
  expect(restored).toMatch(/^install --ignore-scripts .*--frozen-lockfile/);
  const byUv = await calls(uvKind, wanted({ tool: 'uvx', name: 'server', wanted: '2.0' }));
  const withPip = byUv.filter((call) => call.startsWith('pip '));
  expect(withPip.map((call) => call.split(' ')[1])).toEqual(['compile', 'sync']);
  for (const call of withPip) expect(call).toContain('--only-binary :all: ');
  expect(withPip[0]).toContain(' --generate-hashes ');
  for (const call of withPip.slice(1)) expect(call).toContain(' --require-hashes ');
});

test('for a direct session bun and uv install as usual, or exactly what is pinned', async () => {
  const calls = async (kind: Pick<typeof bunKind, 'installDirectly'>, given: PackageCommand, locks?: string) => {
    const made = mkdtempSync(join(folder, 'direct-'));
    const ran: string[] = [];
    const run = async (args: readonly string[]) => void ran.push(args.join(' ').replaceAll(made, 'F'));
    await kind.installDirectly(given, { folder: made, cache: '/c', locks }, run);
    return ran;
  };
  const bun = wanted({ tool: 'bunx', wanted: '1.2.3' });
  expect(await calls(bunKind, bun)).toEqual([expect.stringMatching(/^add .*--cwd=F .*--exact @s\/two@1\.2\.3$/)]);
  expect(await calls(bunKind, bun, folder)).toEqual([expect.stringMatching(/^install .*--frozen-lockfile/)]);
  const uv = wanted({ tool: 'uvx', name: 'server', wanted: '2.0', runtime: '3.12' });
  expect(await calls(uvKind, uv)).toEqual([
    expect.stringMatching(/^venv .*--no-project --python 3\.12 F\/venv$/),
    expect.stringMatching(/^pip compile (?!.*--only-binary).*-o F\/requirements\.txt F\/requirements\.in$/),
    expect.stringMatching(/^pip sync (?!.*--only-binary).*F\/requirements\.txt$/),
  ]);
  // The lock files fit the Python that they were made for.
  const python = join(folder, 'pinned/content-1/venv/bin/python');
  mkdirSync(dirname(python), { recursive: true });
  symlinkSync(process.execPath, python);
  expect(await calls(uvKind, uv, join(folder, 'pinned'))).toEqual([
    expect.stringContaining(` --python ${realpathSync(process.execPath)} `),
    expect.stringMatching(/^pip sync /),
  ]);
});
