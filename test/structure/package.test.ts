import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { readSourceFiles, repository } from './source-files.ts';

interface Manifest {
  readonly exports: Record<string, string | Record<string, string>>;
  readonly dependencies: Record<string, string>;
  readonly optionalDependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}

const manifest = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as Manifest;
const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { hasInstallScript?: boolean; resolved?: string }>;
};

test('every export exists in the build, and nothing built by hand is missing', () => {
  for (const target of Object.values(manifest.exports)) {
    const files = typeof target === 'string' ? [target] : Object.values(target);
    for (const file of files) expect(existsSync(join(repository, file)), file).toBe(true);
  }
});

/** By a process of its own: here each file would be transformed first, which takes seconds. */
async function readExports(): Promise<Record<string, string[]>> {
  const places = Object.entries(manifest.exports).flatMap(([name, target]) =>
    typeof target === 'string' ? [] : [[name, target['default']]],
  );
  const script = `
    const places = ${JSON.stringify(places)};
    const names = async ([name, file]) => [name, Object.keys(await import(file)).sort()];
    console.log(JSON.stringify(Object.fromEntries(await Promise.all(places.map(names)))));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: repository,
  });
  return JSON.parse(stdout) as Record<string, string[]>;
}

async function packedFiles(): Promise<string[]> {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = await promisify(execFile)('npm', args, { cwd: repository, maxBuffer: 1 << 26 });
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  return files.map((file) => file.path);
}

let exported: Promise<Record<string, string[]>>;
let packed: Promise<string[]>;
beforeAll(() => {
  [exported, packed] = [readExports(), packedFiles()];
});

test.each([
  ['.', ['AmbitError', 'createGateway', 'explainInjection', 'injectSessionContext', 'isAmbitError']],
  [
    './sdk',
    [
      'SessionError',
      'createReplayMemory',
      'currentSession',
      'isSessionError',
      'readContext',
      'requirePermission',
      'requireTrust',
      'resolveWorkspace',
      'secureServer',
      'toErrorResult',
      'withSession',
    ],
  ],
  ['./server', ['createServerSessions', 'withSessions']],
  ['./stores', ['openMemoryStore', 'openRedisStore', 'openSqliteStore', 'openStore']],
  ['./testing', ['createTestGateway', 'describeSessionStore']],
])('the export %s holds what it promises and no more', async (name, names) => {
  expect((await exported)[name]).toEqual(names);
});

test('the published package holds what it needs and no more', async () => {
  const paths = await packed;
  for (const needed of [
    'bin/ambit.js',
    'dist/cli/main.js',
    'dist/ambit.schema.json',
    'dist/THIRD-PARTY.txt',
    'LICENSE',
    'README.md',
  ]) {
    expect(paths).toContain(needed);
  }
  expect(paths.filter((path) => !/^(?:bin|dist)\/|^[A-Z]+(?:\.md)?$|^package\.json$/.test(path))).toEqual([]);
});

test('what is published holds the code of others with their terms', () => {
  const maps = readdirSync(join(repository, 'dist'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.js.map'),
  );
  const sources = maps.flatMap(
    (name) => (JSON.parse(readFileSync(join(repository, 'dist', name), 'utf8')) as { sources: string[] }).sources,
  );
  const packages = new Set(sources.flatMap((source) => source.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []));
  expect([...packages].sort()).toEqual(['@marcbachmann/cel-js', 're2js', 'yaml', 'zod']);
  const terms = readFileSync(join(repository, 'dist/THIRD-PARTY.txt'), 'utf8');
  for (const name of packages) {
    expect(terms).toContain(`${name} ${manifest.dependencies[name]} (`);
    expect(terms).toContain(readFileSync(join(repository, 'node_modules', name, 'LICENSE'), 'utf8').trim());
  }
});

test('a program that is started by its path is one file', () => {
  for (const name of ['sandbox/reaper/reaper-process.js', 'sandbox/egress/forwarder.js']) {
    const text = readFileSync(join(repository, 'dist', name), 'utf8');
    const needed = [...text.matchAll(/(?:\bfrom|\bimport\(?) ?['"]([^'"]+)['"]/g)].map((match) => match[1] as string);
    expect(needed.length).toBeGreaterThan(2);
    expect(needed.filter((each) => !each.startsWith('node:'))).toEqual([]);
  }
});

test('files are looked for from one place, which the bundler leaves where it is', () => {
  const looking = readSourceFiles('src').filter((file) => /import\.meta\.(?!url\);)/.test(file.text));
  expect(looking.map((file) => file.path)).toEqual(['src/package-paths.ts']);
});

test('versions are pinned exactly', () => {
  const { dependencies, optionalDependencies, devDependencies } = manifest;
  const versions = Object.values({ ...dependencies, ...optionalDependencies, ...devDependencies });
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))).toEqual([]);
});

test('no dependency has an install script, and the lockfile names no registry', () => {
  const scripted = Object.entries(lock.packages).filter(([, entry]) => entry.hasInstallScript);
  expect(scripted.map(([path]) => path)).toEqual([]);
  expect(Object.values(lock.packages).filter((entry) => entry.resolved !== undefined)).toEqual([]);
});

test('each dependency has its reason, and none is used without being one', () => {
  const page = readFileSync(join(repository, 'docs/explanation/dependencies.md'), 'utf8');
  const reasoned = { ...manifest.dependencies, ...manifest.optionalDependencies };
  for (const name of Object.keys(reasoned)) expect(page).toContain(`\`${name}\``);
  const imported = readSourceFiles('src').flatMap((file) =>
    [...file.text.matchAll(/from '([^.'][^']*)'/g)].map((match) => match[1] as string),
  );
  const packages = new Set(
    imported.filter((name) => !name.startsWith('node:')).map((name) => name.match(/^(?:@[^/]+\/)?[^/]+/)?.[0]),
  );
  expect([...packages].sort()).toEqual(Object.keys(manifest.dependencies).sort());
});
