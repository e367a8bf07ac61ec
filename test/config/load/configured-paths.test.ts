import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { resolveArgs, resolveCommand } from '../../../src/config/load/configured-paths.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-args-'));
writeFileSync(join(folder, 'notes.js'), '');
writeFileSync(join(folder, '-odd'), '');
mkdirSync(join(folder, 'src'));
mkdirSync(join(folder, '@src', 'src'), { recursive: true });
writeFileSync(join(folder, 'src', 'a b.js'), '');
symlinkSync('notes.js', join(folder, 'link.js'));
symlinkSync('nowhere', join(folder, 'dangling.js'));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ['notes.js', join(folder, 'notes.js')],
  ['./notes.js', join(folder, 'notes.js')],
  ['src/a b.js', join(folder, 'src/a b.js')],
  ['src/../notes.js', join(folder, 'notes.js')],
  ['link.js', join(folder, 'link.js')],
  ['src', join(folder, 'src')],
  ['./src', join(folder, 'src')],
  ['src/', join(folder, 'src')],
  ['src/../src', join(folder, 'src')],
])('%s names a file or folder beside the configuration', (arg, expected) => {
  expect(resolveArgs({ command: 'node', args: [arg] }, folder)).toEqual([expected]);
});

test.each([
  '',
  '.',
  './',
  '..',
  '../..',
  '.././/..',
  'src/..',
  'src/../missing/..',
  'missing.js',
  'dangling.js',
  '-odd',
  '--file=notes.js',
  '/etc/hosts',
  'https://example.com/notes.js',
  'notes.js\u0000',
  'x'.repeat(5000),
  '~/notes.js',
])('%j stays as it is', (arg) => {
  expect(resolveArgs({ command: 'node', args: [arg] }, folder)).toEqual([arg]);
});

test.each([
  ['.', folder],
  ['./', folder],
  ['..', dirname(folder)],
  ['src', join(folder, 'src')],
])('called from the folder itself, %s is %s', (arg, expected) => {
  expect(resolveArgs({ command: 'node', args: [arg] }, folder, { withDots: true })).toEqual([expected]);
});

test.each([
  ['python3', ['-m', 'src']],
  ['uv', ['run', 'src']],
  ['npx', ['-y', 'src']],
  ['npx', ['-y', '@src/src']],
  ['/usr/bin/npx', ['-p', 'src', 'src']],
  ['uvx', ['--from', 'src', 'src']],
])('%s %j names a package, module or script, although a folder has the same name', (command, args) => {
  expect(resolveArgs({ command, args }, folder)).toEqual(args);
});

test('a path that starts with a dot, and what follows the name of a package, are folders again', () => {
  const path = join(folder, 'src');
  expect(resolveArgs({ command: 'npx', args: ['-y', './src', 'src'] }, folder)).toEqual(['-y', path, path]);
  expect(resolveArgs({ command: 'npx', args: ['-y', 'src', 'src'] }, folder)).toEqual(['-y', 'src', path]);
});

test('the arguments themselves are not changed', () => {
  const args = Object.freeze(['-y', 'notes.js']);
  expect(resolveArgs({ command: 'node', args }, folder)).toEqual(['-y', join(folder, 'notes.js')]);
  expect(args).toEqual(['-y', 'notes.js']);
});

test.each([
  ['node', 'node'],
  ['notes.js', 'notes.js'],
  ['./notes.js', '/srv/notes.js'],
  ['bin/notes', '/srv/bin/notes'],
  ['../notes', '/notes'],
  ['/usr/bin/node', '/usr/bin/node'],
])('the command %s is %s', (command, expected) => {
  expect(resolveCommand(command, '/srv')).toBe(expected);
});
