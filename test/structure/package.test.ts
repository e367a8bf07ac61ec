import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type InstalledPackage, installPackage } from './installed-package.ts';
import { readSourceFiles, repository } from './source-files.ts';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly bin: Record<string, string>;
  readonly exports: Record<string, string | Record<string, string>>;
  readonly dependencies: Record<string, string>;
  readonly optionalDependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
}

const manifest = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as Manifest;
const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { hasInstallScript?: boolean; resolved?: string; engines?: { node?: string } }>;
};

test('every export exists in the build, and nothing built by hand is missing', () => {
  for (const target of Object.values(manifest.exports)) {
    const files = typeof target === 'string' ? [target] : Object.values(target);
    for (const file of files) expect(existsSync(join(repository, file)), file).toBe(true);
  }
});

/** The names of every export, by `import` and by `require`, as a program in that project gets them. */
async function readExports(folder: string): Promise<Record<string, { imported: string[]; required: string[] }>> {
  const names = Object.keys(manifest.exports).map((name) => `${manifest.name}${name.slice(1)}`);
  const script = `
    import { createRequire } from 'node:module';
    const require = createRequire(import.meta.url);
    const namesOf = (exported) => Object.keys(exported).sort();
    const said = {};
    for (const name of ${JSON.stringify(names)}) {
      const loaded = name.endsWith('.json') ? (await import(name, { with: { type: 'json' } })).default : await import(name);
      said[name] = { imported: namesOf(loaded), required: namesOf(require(name)) };
    }
    console.log(JSON.stringify(said));`;
  writeFileSync(join(folder, 'load.mjs'), script);
  // Some versions of Node warn on stderr that require() of a module is new.
  const { stdout } = await promisify(execFile)(process.execPath, ['load.mjs'], { cwd: folder });
  return JSON.parse(stdout) as Record<string, { imported: string[]; required: string[] }>;
}

let installed: InstalledPackage;
let exported: Awaited<ReturnType<typeof readExports>>;
beforeAll(async () => {
  installed = await installPackage(manifest);
  exported = await readExports(installed.folder);
});
afterAll(() => installed?.remove());

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
  ['./server', ['AmbitError', 'cacheResult', 'createServerSessions', 'isAmbitError', 'withSessions']],
  [
    './workspaces',
    [
      'AmbitError',
      'SafeRootError',
      'createFileTools',
      'createPathGuard',
      'createPathRules',
      'isAmbitError',
      'openContainerBackends',
      'openDatabaseBackend',
      'openLocalBackend',
      'openRoot',
    ],
  ],
  ['./stores', ['openMemoryStore', 'openRedisStore', 'openSqliteStore', 'openStore']],
  ['./testing', ['createTestGateway', 'describeSessionStore']],
])(
  'the export %s of the installed package holds what it promises and no more, by import and by require',
  (name, names) => {
    expect(exported[`${manifest.name}${name.slice(1)}`]).toEqual({ imported: names, required: names });
  },
);

test('the installed package has its manifest, its schema and its command', async () => {
  for (const name of ['package.json', 'schema.json']) {
    const { imported, required } = exported[`${manifest.name}/${name}`] ?? {};
    expect(imported?.length).toBeGreaterThan(4);
    expect(required).toEqual(imported);
  }
  const { stdout } = await promisify(execFile)(join(installed.folder, 'node_modules/.bin/ambit'), ['--version']);
  expect(stdout).toBe(`${manifest.version}\n`);
});

test('the published package holds what it needs and no more, in less than 2 MB', () => {
  expect(installed.tarballBytes).toBeLessThan(2_000_000);
  const paths = installed.files;
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
  expect(paths.filter((path) => path.endsWith('.map'))).toEqual([]);
  const bundles = paths.filter((path) => path.endsWith('.js'));
  const text = (path: string) => readFileSync(join(repository, path), 'utf8');
  expect(bundles.filter((path) => /^\/\/# sourceMappingURL=/m.test(text(path)))).toEqual([]);
});

test('what is published holds the code of others with their terms', () => {
  const maps = readdirSync(join(repository, 'dist'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.js.map'),
  );
  const sources = maps.flatMap(
    (name) => (JSON.parse(readFileSync(join(repository, 'dist', name), 'utf8')) as { sources: string[] }).sources,
  );
  const packages = new Set(sources.flatMap((source) => source.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []));
  expect([...packages].sort()).toEqual(['@marcbachmann/cel-js', 'jsonc-parser', 're2js', 'smol-toml', 'yaml', 'zod']);
  const terms = readFileSync(join(repository, 'dist/THIRD-PARTY.txt'), 'utf8');
  for (const name of packages) {
    expect(terms).toContain(`${name} ${manifest.dependencies[name]} (`);
    const folder = join(repository, 'node_modules', name);
    const license = readdirSync(folder).find((file) => /^LICENSE(?:\.md)?$/.test(file)) ?? 'LICENSE';
    expect(terms).toContain(readFileSync(join(folder, license), 'utf8').trim());
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

/** Whether a range of `engines` accepts the oldest Node that we promise. Knows only the forms that ranges have here. */
function acceptsOldestNode(range: string): boolean {
  const [major, minor] = [20, 19];
  return range.split('||').some((part) => {
    const [, sign = '', atMajor, atMinor = '0'] = /^\s*(>=|\^|)\s*v?(\d+)(?:\.(\d+))?/.exec(part) ?? [];
    const [wantedMajor, wantedMinor] = [Number(atMajor), Number(atMinor)];
    if (sign === '>=' && wantedMajor < major) return true;
    return wantedMajor === major && wantedMinor <= minor;
  });
}

test('every package runs on the oldest Node that we promise, so that "npm ci" warns about none', () => {
  expect(['>=22', '>=20.20', '^22.0.0 || >=24'].filter(acceptsOldestNode)).toEqual([]);
  const refusing = Object.entries(lock.packages).filter(
    ([, { engines }]) => !acceptsOldestNode(engines?.node ?? '>=0'),
  );
  expect(refusing.map(([path, { engines }]) => `${path}: ${engines?.node}`)).toEqual([]);
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
