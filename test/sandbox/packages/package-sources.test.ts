import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { bunKind, checkBunLock } from '../../../src/sandbox/packages/bun-kind.ts';
import {
  dropNpmSettings,
  installVariables,
  isSetByProject,
  readNpmrc,
  readNpmSources,
  writeNpmrc,
} from '../../../src/sandbox/packages/package-sources.ts';
import { assertNoEscape, assertTreeSize, TooLargeError } from '../../../src/sandbox/packages/package-store.ts';
import { readUvIndexes, uvKind } from '../../../src/sandbox/packages/uv-kind.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-sources-')));
const home = join(folder, 'home');
const npm = join(folder, 'npm/bin/npm-cli.js');
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  rmSync(home, { recursive: true, force: true });
  for (const each of [home, join(folder, 'npm/bin'), join(folder, 'prefix/etc'), join(folder, 'project')]) {
    mkdirSync(each, { recursive: true });
  }
  writeFileSync(npm, '');
});

/** As it stands in a file. */
const variable = (name: string) => `$\u007b${name}}`;
const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
const env = (given: NodeJS.ProcessEnv = {}) => ({ HOME: home, PREFIX: join(folder, 'prefix'), ...given });
const settingsOf = (sources: { files: Readonly<Record<string, string | Buffer>> }) =>
  readNpmrc(String(sources.files['npmrc']), {});

test('S1: a fetch is given the registries of the user and the credentials of these alone', () => {
  write('ca.pem', 'certificate');
  write(
    'prefix/etc/npmrc',
    `@s:registry=https://scoped.example/npm/\ncafile=${folder}/ca.pem\nregistry=http://lost.example\n`,
  );
  write(
    'home/.npmrc',
    [
      ...[
        '; a comment',
        'registry = "https://own.example/"',
        `//own.example/:_authToken=${variable('TOKEN')}`,
        '//own.example:81/:_authToken=no',
      ],
      ...[
        '//scoped.example/npm/:_auth=c2NvcGVk',
        '//other.example/:_authToken=no',
        '//own.example.evil/:_authToken=no',
      ],
      ...[
        'ignore-scripts=false',
        'script-shell=/bin/evil',
        'git=/bin/evil',
        'cache=/evil',
        'https-proxy=http://proxy.example:3128',
        'fetch-retry-maxtimeout=7000',
      ],
    ].join('\n'),
  );
  const sources = readNpmSources(env({ TOKEN: 'of-the-user', NO_PROXY: '.scoped.example,scoped.example' }), npm);
  expect(sources.hosts).toEqual(['own.example:443', 'scoped.example:443']);
  expect(settingsOf(sources)).toEqual({
    registry: 'https://own.example/',
    '@s:registry': 'https://scoped.example/npm/',
    '//own.example/:_authToken': 'of-the-user',
    '//scoped.example/npm/:_auth': 'c2NvcGVk',
    cafile: '/run/fetch/settings/file-0.pem',
    // One is a default of Ambit's, and the other was set by the user.
    'fetch-retry-mintimeout': '1000',
    'fetch-retry-maxtimeout': '7000',
  });
  expect(installVariables(env(), npm)).toEqual({
    npm_config_globalconfig: join(folder, 'prefix/etc/npmrc'),
    npm_config_fetch_retry_mintimeout: '1000',
  });
  expect(String(sources.files['file-0.pem'])).toBe('certificate');
  expect(sources.secrets).toEqual(['of-the-user', 'c2NvcGVk']);
  expect(sources.proxyFor('own.example:443')?.host).toBe('proxy.example:3128');
  expect(sources.proxyFor('scoped.example:443')).toBeUndefined();
  const byEnvironment = readNpmSources(env({ npm_config_registry: 'http://127.0.0.1:4873', TOKEN: 'x' }), npm);
  expect(byEnvironment.hosts).toEqual(['127.0.0.1:4873', 'scoped.example:443']);
  expect(JSON.stringify(settingsOf(byEnvironment))).not.toContain('own.example');
});

test('S7: a pipe in the place of a file of certificates holds nothing up', () => {
  const pipe = join(folder, 'pipe.pem');
  execFileSync('mkfifo', [pipe]);
  expect(() => readNpmSources(env({ NODE_EXTRA_CA_CERTS: pipe }), npm)).toThrow('is too large or not a regular file');
});

test('S7: nor does one in the place of the settings of npm, bun or uv', () => {
  const pipe = join(folder, 'pipe.npmrc');
  execFileSync('mkfifo', [pipe]);
  const refusal = 'is too large or not a regular file';
  expect(() => readNpmSources(env({ npm_config_userconfig: pipe }), npm)).toThrow(refusal);
  expect(() => readUvIndexes({ HOME: folder, UV_CONFIG_FILE: pipe })).toThrow(refusal);
  // This is how many people say that they want no settings.
  expect(readNpmSources(env({ npm_config_userconfig: '/dev/null' }), npm).hosts).not.toEqual([]);
});

test('S1: a project that npx has started Ambit in chooses no registry and gets no credential', () => {
  write('home/.npmrc', 'registry=https://own.example/\n//own.example/:_authToken=of-the-user\n');
  write(
    'project/.npmrc',
    `registry=https://evil.example/\nuserconfig=${folder}/evil\n@s:registry=https://evil.example/\n`,
  );
  write('evil', 'registry=https://evil.example/\n');
  const project = { npm_config_local_prefix: join(folder, 'project') };
  const started = env({
    ...project,
    npm_config_registry: 'https://evil.example/',
    NPM_CONFIG_USERCONFIG: join(folder, 'evil'),
    npm_config_https_proxy: 'http://evil.example:1',
  });
  expect(isSetByProject(started)).toBe(true);
  const { hosts, proxyFor } = readNpmSources(dropNpmSettings(started), npm);
  expect(hosts).toContain('own.example:443');
  expect(hosts).not.toContain('evil.example:443');
  expect(proxyFor('own.example:443')).toBeUndefined();
  // npm has read a name with variables that only npm had then.
  write('project/.npmrc', `reg${variable('npm_command?')}istry=https://evil.example/\n`);
  expect(isSetByProject(env(project))).toBe(true);
  rmSync(join(folder, 'project/.npmrc'));
  expect(isSetByProject(env(project))).toBe(false);
  // In the home folder the file is the user's own, also by a link.
  symlinkSync(join(home, '.npmrc'), join(folder, 'project/.npmrc'));
  for (const prefix of [home, join(folder, 'project')]) {
    expect(isSetByProject(env({ npm_config_local_prefix: prefix }))).toBe(false);
  }
});

test('a settings file is read and written as npm does it', () => {
  const text = `a=1\nb = "x;y" \nc='\${V}'\nd=plain ; comment\ne=a\\;b\nf\ng[]=1\ng[]=2\nh=\\\${V}\ni=\${NONE?}\n[section]\na=2\n`;
  const values = readNpmrc(text, { V: `v=${variable('W')}#"` });
  expect(values).toEqual({
    a: '1',
    b: 'x;y',
    c: `v=${variable('W')}#"`,
    d: 'plain',
    e: 'a;b',
    f: 'true',
    g: ['1', '2'],
    h: variable('V'),
    i: '',
  });
  expect(readNpmrc(writeNpmrc(values), { V: 'other', W: 'other' })).toEqual(values);
});

test('S1: Bun and uv take packages from where the user has said, or not at all', () => {
  write('home/.bunfig.toml', '[install]\nregistry = "https://own.example"\n');
  const host = (given = {}) => ({ env: env(given), fetcher: npm });
  const wanted = { tool: 'bunx', name: 'x', wanted: '', program: undefined, runtime: undefined, args: [] } as const;
  expect(() => bunKind.findSources(host(), wanted)).toThrow(/\.bunfig\.toml sets a registry/);
  expect(bunKind.findSources(host({ BUN_CONFIG_REGISTRY: 'https://b.example' }), wanted)).toMatchObject({
    hosts: expect.arrayContaining(['b.example:443']),
  });
  expect(readUvIndexes(env())).toEqual({ default: { url: 'https://pypi.org/simple' }, further: [] });
  mkdirSync(join(home, '.config/uv'), { recursive: true });
  write('home/.config/uv/uv.toml', '[[index]]\nurl = "https://own.example"\ndefault = true\n');
  expect(() => readUvIndexes(env())).toThrow(/a configuration file of uv sets the index/);
  const named = env({
    UV_DEFAULT_INDEX: 'own=https://own.example/simple',
    UV_INDEX_OWN_PASSWORD: 'p',
    UV_INDEX: 'https://b.example',
  });
  expect(readUvIndexes(named)).toMatchObject({
    default: { url: 'https://own.example/simple', name: 'own', password: 'p' },
    further: [{ url: 'https://b.example' }],
  });
  expect(() => readUvIndexes(env({ UV_DEFAULT_INDEX: 'file:///srv/wheels' }))).toThrow(/not a registry URL/);
});

test('S1: the lock files of Bun and uv hold nothing but what a registry has', () => {
  const hosts = ['own.example:443'];
  const bun =
    (...entry: unknown[]) =>
    () =>
      checkBunLock(`{"packages": {"a": ${JSON.stringify(entry)},},}`, { hosts });
  expect(bun('a@1.0.0', '', { dependencies: { b: '^1' } }, 'sha512-abc=')).not.toThrow();
  expect(bun('a@1.0.0', 'https://own.example/a.tgz', { bundled: true }, 'sha512-abc=')).not.toThrow();
  expect(bun('a@1.0.0', 'https://cdn.example/a.tgz', {}, 'sha512-abc=')).toThrow(/"a", which comes from https:\/\/cdn/);
  expect(bun('a@1.0.0', '', {}, '')).toThrow(/"a", for which the registry has no hash/);
  expect(bun('a@1.0.0', '', { optionalDependencies: { b: 'file:~/' } }, 'sha512-abc=')).toThrow(
    /"b", which "a" requires/,
  );
  for (const ident of [
    'a@file:../x',
    'a@link:x',
    'a@workspace:x',
    'a@git+ssh://git@h/x#1',
    'a@https://h/x.tgz',
    'a@root:',
  ]) {
    expect(bun(ident, {}), ident).toThrow(/"a", which is .* not in a registry/);
  }
  const sources = { hosts, files: {}, env: {}, secrets: [], proxyFor: () => undefined };
  const uv = (text: string) => () => {
    write('requirements.txt', text);
    uvKind.checkLock(folder, sources);
  };
  const hash = `--hash=sha256:${'a'.repeat(64)}`;
  expect(
    uv(`anyio==4.1 \\\n    ${hash} \\\n    ${hash}\nwin[x]==1.0 ; sys_platform == 'win32' \\\n    ${hash}\n`),
  ).not.toThrow();
  for (const line of [
    'loot @ file:///root',
    'loot @ git+https://h/x',
    '-e ../x',
    './x',
    '--find-links /x',
    'loot==1.0',
    'loot>=1',
  ]) {
    expect(uv(`anyio==4.1 ${hash}\n${line} ${line === 'loot==1.0' ? '' : hash}\n`), line).toThrow(
      /which is not a wheel with a hash/,
    );
  }
});

test('S1: a link in a fetched folder leads nowhere else', async () => {
  const tree = join(folder, 'tree');
  mkdirSync(join(tree, 'node_modules/.bin'), { recursive: true });
  write('tree/node_modules/x.js', '');
  symlinkSync('../x.js', join(tree, 'node_modules/.bin/x'));
  await assertNoEscape(tree);
  for (const target of ['/etc/passwd', '../../../home', '../../missing', '../../..']) {
    const link = join(tree, 'node_modules/.bin/y');
    symlinkSync(target, link);
    await expect(assertNoEscape(tree), target).rejects.toThrow(/the link "node_modules\/\.bin\/y", which leads out/);
    rmSync(link);
  }
});

test('S1: what a fetched folder holds is bounded by bytes and by names', async () => {
  const tree = join(folder, 'large');
  mkdirSync(join(tree, 'a/b'), { recursive: true });
  write('large/a/b/x', 'x'.repeat(5000));
  const wide = { bytes: 1 << 20, files: 3 };
  await assertTreeSize([tree], wide);
  await expect(assertTreeSize([tree], { ...wide, files: 2 })).rejects.toThrow('more than 1 MiB or 2 files');
  await expect(assertTreeSize([tree], { ...wide, bytes: 4999 })).rejects.toThrow(TooLargeError);
  await expect(assertTreeSize([tree, tree], wide)).rejects.toThrow(TooLargeError);
});
