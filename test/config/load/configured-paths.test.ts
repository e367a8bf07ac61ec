import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { resolveArgs, resolveCommand } from '../../../src/config/load/configured-paths.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-args-'));
writeFileSync(join(folder, 'notes.js'), '');
writeFileSync(join(folder, '-odd'), '');
mkdirSync(join(folder, 'src'));
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
])('%s names a file beside the configuration', (arg, expected) => {
  expect(resolveArgs([arg], folder)).toEqual([expected]);
});

test.each([
  '',
  '.',
  'src',
  'src/',
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
  expect(resolveArgs([arg], folder)).toEqual([arg]);
});

test('the arguments themselves are not changed', () => {
  const args = Object.freeze(['-y', 'notes.js']);
  expect(resolveArgs(args, folder)).toEqual(['-y', join(folder, 'notes.js')]);
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
