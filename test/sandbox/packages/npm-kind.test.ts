import { expect, test } from 'vitest';
import { checkNpmLock } from '../../../src/sandbox/packages/npm-kind.ts';
import { isRegistrySpec } from '../../../src/sandbox/packages/read-package-file.ts';

const registries = { hosts: ['registry.example:443', '127.0.0.1:4873'], replacedHost: 'npmjs' };
const good = { version: '1.0.0', resolved: 'https://registry.example/a/-/a-1.0.0.tgz', integrity: 'sha512-abc+/==' };

const check =
  (packages: Record<string, unknown>, others = registries) =>
  () =>
    checkNpmLock(
      JSON.stringify({ lockfileVersion: 3, packages: { '': { dependencies: { a: '1.0.0' } }, ...packages } }),
      others,
    );

test('S1: a lock file of tarballs of the registry is taken, with aliases, bundles, optional and peer packages', () => {
  const bundling = { ...good, dependencies: { inner: 'file:./inner' }, bundleDependencies: ['inner'] };
  const taken = {
    'node_modules/a': { ...good, dependencies: { b: 'npm:@s/other@^1.2', c: '>=1 <2 || 3.x', d: 'latest', e: '' } },
    'node_modules/b': { ...good, name: '@s/other', resolved: 'http://127.0.0.1:4873/x.tgz', integrity: 'sha1-abc=' },
    'node_modules/@s/c': { ...good, optional: true, os: ['darwin'], peerDependencies: { a: '*' } },
    'node_modules/d': { ...good, resolved: 'https://registry.npmjs.org/d/-/d-1.0.0.tgz' },
    'node_modules/e': {
      ...good,
      peerDependencies: { x: 'workspace:^' },
      peerDependenciesMeta: { x: { optional: true } },
    },
    'node_modules/f': bundling,
    'node_modules/f/node_modules/inner': {
      version: '1.0.0',
      inBundle: true,
      dependencies: { deeper: 'file:../deeper' },
    },
    'node_modules/f/node_modules/deeper': { version: '0.0.0', inBundle: true },
    'node_modules/g': { version: '1.0.0-beta.1+x', integrity: good.integrity },
  };
  expect(check(taken)).not.toThrow();
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ['a link', { 'node_modules/a': { resolved: '../x', link: true } }, /"a", which is a link/],
  ['a place outside', { '../../home': { version: '1.0.0' } }, /"\.\.\/\.\.\/home", which lies outside/],
  ['a path upwards', { 'node_modules/../x': good }, /lies outside/],
  ['a folder', { 'node_modules/a': { ...good, resolved: 'file:../../home' } }, /"a", which comes from somewhere else/],
  ['a repository', { 'node_modules/a': { ...good, resolved: 'git+ssh://git@h/a.git#1' } }, /"a", which comes/],
  [
    'another host',
    { 'node_modules/a': { ...good, resolved: 'https://cdn.example/a.tgz' } },
    /from https:\/\/cdn\.example/,
  ],
  ['another port', { 'node_modules/a': { ...good, resolved: 'https://registry.example:8443/a.tgz' } }, /"a"/],
  ['a password', { 'node_modules/a': { ...good, resolved: 'https://u:secret@cdn.example/a' } }, /^(?!.*secret).*"a"/],
  ['no hash', { 'node_modules/a': { ...good, integrity: undefined } }, /"a", for which the registry has no hash/],
  ['a weak hash', { 'node_modules/a': { ...good, integrity: 'md5-abc=' } }, /no hash/],
  [
    'a version that is a path',
    { 'node_modules/a': { integrity: good.integrity, version: 'file:/home' } },
    /"a", whose version is not/,
  ],
  ['a bundle of nobody', { 'node_modules/a': { version: '1.0.0', inBundle: true } }, /"a", for which/],
  [
    'a link in a bundle',
    { 'node_modules/a': good, 'node_modules/a/node_modules/b': { inBundle: true, link: true } },
    /"b", which is a link/,
  ],
  [
    'a bundle from elsewhere',
    { 'node_modules/a': good, 'node_modules/a/node_modules/b': { inBundle: true, resolved: 'file:/x' } },
    /"b"/,
  ],
  [
    'a dependency',
    { 'node_modules/a': { ...good, dependencies: { loot: 'file:~/' } } },
    /"loot", which "a" requires as "file:~\/"/,
  ],
  ['a guess', { 'node_modules/a': { ...good, optionalDependencies: { loot: 'git+file:///x' } } }, /"loot"/],
  ['a peer', { 'node_modules/a': { ...good, peerDependencies: { loot: 'link:/x' } } }, /"loot"/],
])('S1: a lock file with %s is refused, and says so', (_, packages, offender) => {
  expect(check(packages)).toThrow(offender);
});

test('S1: the public registry stands for that of the user only as npm is set to', () => {
  const lock = { 'node_modules/a': { ...good, resolved: 'https://registry.npmjs.org/a.tgz' } };
  expect(check(lock, { ...registries, replacedHost: 'never' })).toThrow(/"a"/);
  expect(check(lock, { ...registries, replacedHost: 'registry.npmjs.org' })).not.toThrow();
});

test('S1: a specifier is of a registry, or it is refused', () => {
  const of = ['', '*', '1.2.3', 'v1.2', '^1.2.3-beta.1', '>= 1.0 < 2', '1 - 2', 'next', '~1', 'npm:a', 'npm:@s/a@^1'];
  expect(of.filter((spec) => !isRegistrySpec(spec))).toEqual([]);
  const not = [
    ...[
      'file:x',
      'FILE:x',
      './x',
      '../x',
      '.',
      '..',
      '/x',
      '~/x',
      '~/',
      'x/y',
      'x.tgz',
      '1.tar.gz',
      'link:x',
      'workspace:*',
    ],
    ...[
      'git+ssh://h/x',
      'github:a/b',
      'git@h:a',
      'http://h/x',
      'https://h',
      'a@1',
      'npm:file:x',
      'npm:a@file:x',
      'npm:../x',
    ],
    ...['patch:a', 'portal:x', 'C:x', 'C:\\x', '\\\\h\\x', '#x', '%2e', 'a\u0000b', 1, null, undefined, {}],
  ];
  expect(not.filter((spec) => isRegistrySpec(spec))).toEqual([]);
});
