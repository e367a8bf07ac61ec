import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fileTools } from '../../../src/workspaces/tools/create-own-tools.ts';
import { createTestFiles, type TestFiles } from './file-tool-fixture.ts';

let all: TestFiles;

beforeEach(() => {
  all = createTestFiles();
});
afterEach(() => all.close());

describe('delete', () => {
  test('W1: a file, a link itself, an empty folder', async () => {
    all.put('a', 'x');
    mkdirSync(join(all.folder, 'empty'));
    symlinkSync('a', join(all.folder, 'link'));
    expect(await all.data('delete_file', { path: 'link' })).toEqual({ path: 'link', kind: 'link', entries: 1 });
    expect(await all.data('delete_file', { path: 'empty' })).toMatchObject({ kind: 'folder' });
    expect(all.get('a')).toBe('x');
    expect((await all.call('delete_file', { path: 'a' })).content[0].text).toBe('Deleted file a.');
    expect(readdirSync(all.folder)).toEqual([]);
  });

  test('W1: a folder with all in it only when asked', async () => {
    all.put('dir/a/b', 'x');
    const refused = await all.refused('delete_file', { path: 'dir' });
    expect(refused).toMatchObject({ code: 'FOLDER_NOT_EMPTY', text: expect.stringContaining('"recursive": true') });
    expect(await all.data('delete_file', { path: 'dir', recursive: true })).toMatchObject({ entries: 3 });
    expect(existsSync(join(all.folder, 'dir'))).toBe(false);
  });

  test('neither the workspace itself, nor what is kept, nor what lies outside', async () => {
    all.put('.git/config', 'x');
    all.put('dir/.git/config', 'x');
    symlinkSync('/tmp', join(all.folder, 'out'));
    for (const path of ['.', './', 'dir/..', '../x', '/', '.git', 'dir', 'out/x'])
      expect((await all.refused('delete_file', { path, recursive: true })).code, path).toMatch(/^PATH_/);
    expect((await all.refused('delete_file', { path: 'none' })).code).toBe('FILE_NOT_FOUND');
    expect(readdirSync(all.folder).sort()).toEqual(['.git', 'dir', 'out']);
  });
});

describe('move', () => {
  test('W1: to a new name, folders made on the way', async () => {
    all.put('a', 'x');
    expect(await all.data('move_file', { from: 'a', to: 'b/c/d' })).toEqual({ from: 'a', to: 'b/c/d', kind: 'file' });
    expect((await all.call('move_file', { from: 'b', to: 'e' })).content[0].text).toBe('Moved folder b to e.');
    expect(all.get('e/c/d')).toBe('x');
  });

  test('W1: onto another file only when asked', async () => {
    all.put('a', 'new');
    all.put('b', 'old');
    expect((await all.refused('move_file', { from: 'a', to: 'b' })).code).toBe('FILE_EXISTS');
    expect(all.get('b')).toBe('old');
    await all.data('move_file', { from: 'a', to: 'b', overwrite: true });
    expect(all.get('b')).toBe('new');
  });

  test('does not cross its bounds in either direction', async () => {
    all.put('a', 'x');
    all.put('.env', 'secret');
    for (const [from, to] of [
      ['a', '../a'],
      ['a', '/tmp/a'],
      ['../a', 'b'],
      ['a', '.git/hooks/pre-commit'],
      ['.env', 'shown'],
      ['.', 'b'],
    ])
      expect((await all.refused('move_file', { from, to, overwrite: true })).code, `${from} ${to}`).toMatch(/^PATH_/);
    expect(readdirSync(all.folder).sort()).toEqual(['.env', 'a']);
  });

  test('two the opposite way at once do not wait for each other forever', async () => {
    all.put('a', 'a');
    all.put('b', 'b');
    const both = await Promise.all([
      all.call('move_file', { from: 'a', to: 'b', overwrite: true }),
      all.call('move_file', { from: 'b', to: 'a', overwrite: true }),
    ]);
    expect(both.some(({ isError }) => isError !== true)).toBe(true);
  });
});

describe('info', () => {
  test('W1: what a file is', async () => {
    all.put('src/a.json', '{\r\n}\r\n');
    chmodSync(join(all.folder, 'src/a.json'), 0o640);
    utimesSync(join(all.folder, 'src/a.json'), 1_000_000_000, 1_000_000_000);
    expect(await all.data('file_info', { path: './src//a.json' })).toEqual({
      path: 'src/a.json',
      kind: 'file',
      bytes: 6,
      modified: '2001-09-09T01:46:40.000Z',
      mode: '640',
      target: null,
      writable: true,
      content: {
        binary: false,
        mimeType: 'application/json',
        encoding: 'utf-8',
        bom: false,
        lineEnding: 'crlf',
        lines: 2,
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    all.put('x.bin', Uint8Array.of(0, 1));
    const { content } = await all.data<{ content: object }>('file_info', { path: 'x.bin' });
    expect(content).toMatchObject({ binary: true, mimeType: 'application/octet-stream', lines: null, encoding: null });
  });

  test('folders, links, and links that lead nowhere or outside', async () => {
    all.put('dir/a', 'x\n');
    all.put('.git/config', 'kept\n');
    symlinkSync('dir/a', join(all.folder, 'link'));
    symlinkSync('.git/config', join(all.folder, 'kept'));
    symlinkSync('none', join(all.folder, 'dangling'));
    symlinkSync('/etc/hostname', join(all.folder, 'out'));
    expect(await all.data('file_info', { path: '.' })).toMatchObject({
      kind: 'folder',
      writable: false,
      content: null,
    });
    expect(await all.data('file_info', { path: 'link' })).toMatchObject({
      path: 'link',
      kind: 'link',
      target: { path: 'dir/a', kind: 'file' },
      writable: true,
      content: { lines: 1 },
    });
    for (const path of ['kept', '.git/config']) {
      expect(await all.data('file_info', { path })).toMatchObject({ writable: false, content: { lines: 1 } });
    }
    for (const path of ['dangling', 'out']) {
      const result = await all.call('file_info', { path });
      expect(result.structuredContent).toMatchObject({ kind: 'link', target: null, writable: false, content: null });
      expect(JSON.stringify(result)).not.toContain('hostname');
    }
    expect((await all.refused('file_info', { path: 'none' })).code).toBe('FILE_NOT_FOUND');
  });
});

test('W1: every tool takes the session first, describes all it takes, and says what it may do', () => {
  const definitions = fileTools({ withFiles: () => Promise.reject(new Error('not called')) }).map(
    (each) => each.definition,
  );
  const effects = definitions.map(({ name, annotations }) => [
    name,
    annotations.readOnlyHint,
    annotations.destructiveHint,
  ]);
  expect(effects).toEqual([
    ['session_read_file', true, false],
    ['session_edit_file', false, true],
    ['session_delete_file', false, true],
    ['session_move_file', false, true],
    ['session_file_info', true, false],
  ]);
  for (const { inputSchema, outputSchema, description } of definitions) {
    const properties = inputSchema['properties'] as Record<string, { description?: string }>;
    expect(Object.keys(properties)[0]).toBe('session');
    expect(inputSchema['required'] ?? []).not.toContain('session');
    for (const each of Object.values(properties)) expect(each.description).toBeTruthy();
    expect(outputSchema['additionalProperties']).toBe(false);
    expect(description.length).toBeLessThan(300);
  }
});
