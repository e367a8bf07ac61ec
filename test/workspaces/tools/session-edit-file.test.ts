import { createHash } from 'node:crypto';
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { SessionFiles } from '../../../src/workspaces/session-files.ts';
import { editFile } from '../../../src/workspaces/tools/session-edit-file.ts';
import { counts } from '../../proof.ts';
import { createTestFiles, type TestFiles } from './file-tool-fixture.ts';

let all: TestFiles;

beforeEach(() => {
  all = createTestFiles(100_000);
});
afterEach(() => all.close());

const edit = (path: string, ...edits: object[]) => all.data('edit_file', { path, edits });
const sha256 = (content: string | Uint8Array) => createHash('sha256').update(content).digest('hex');
const bytesOf = (path: string) => readFileSync(join(all.folder, path));

describe('edits', () => {
  test('W1: replace text that is there once, and tell what changed', async () => {
    all.put('src/a.ts', 'const a = 1;\nconst b = 2;\n');
    chmodSync(join(all.folder, 'src/a.ts'), 0o750);
    const args = { path: 'src/a.ts', edits: [{ oldText: 'a = 1', newText: 'a = 3' }] };
    const result = await all.call('edit_file', args);
    const now = 'const a = 3;\nconst b = 2;\n';
    const diff = '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n-const a = 1;\n+const a = 3;\n const b = 2;\n';
    expect(all.get('src/a.ts')).toBe(now);
    expect(result.structuredContent).toEqual({
      path: 'src/a.ts',
      created: false,
      changed: true,
      dryRun: false,
      bytes: now.length,
      lines: 2,
      sha256: sha256(now),
      encoding: 'utf-8',
      bom: false,
      lineEnding: 'lf',
      edits: [{ strategy: 'exact', replacements: 1, line: 1 }],
      added: 1,
      removed: 1,
      diff,
    });
    expect(result.content[0].text).toBe(`Changed src/a.ts: +1 −1 lines, now 2 lines, 26 bytes.\n\n${diff}`);
    expect(statSync(join(all.folder, 'src/a.ts')).mode & 0o777).toBe(0o750);
  });

  test('W1: are made in order, all of them or none', async () => {
    all.put('a', 'one two three');
    const answer = await edit(
      'a',
      { oldText: 'one', newText: 'two two' },
      { oldText: 'two', newText: '2', replaceAll: true },
    );
    expect(all.get('a')).toBe('2 2 2 three');
    expect(answer['edits']).toMatchObject([{ replacements: 1 }, { replacements: 3 }]);
    const refused = await all.refused('edit_file', {
      path: 'a',
      edits: [
        { oldText: 'three', newText: '3' },
        { oldText: 'four', newText: '4' },
      ],
    });
    expect(refused).toMatchObject({ code: 'EDIT_NO_MATCH', text: expect.stringContaining('edits[1]') });
    expect(all.get('a')).toBe('2 2 2 three');
  });

  test('W8: a text that is missing is answered with where something like it is', async () => {
    all.put('a.ts', 'function one() {\n  return 1;\n}\n\nfunction two() {\n  return 2;\n}\n');
    const { code, text } = await all.refused('edit_file', {
      path: 'a.ts',
      edits: [{ oldText: 'function two() {\n  return 3;\n}', newText: '' }],
    });
    expect(code).toBe('EDIT_NO_MATCH');
    expect(text).toContain('line 6 has "  return 2;" where oldText has "  return 3;"');
    expect(text).toContain('session_read_file');
    const other = await all.refused('edit_file', { path: 'a.ts', edits: [{ oldText: 'entirely other', newText: '' }] });
    expect(other.text).toContain('The file has no similar text.');
  });

  test('W8: a text that is there several times is answered with where', async () => {
    all.put('a', 'x\n'.repeat(2000));
    const refused = await all.refused('edit_file', { path: 'a', edits: [{ oldText: 'x\n', newText: '' }] });
    expect(refused.code).toBe('EDIT_AMBIGUOUS');
    expect(refused.text).toContain('1000 times or more, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ….');
    expect(refused.text).toContain('replaceAll');
    expect(refused.text.length).toBeLessThan(400);
  });

  test('W8: edits that mean nothing, and arguments that do not fit, are refused with what to give', async () => {
    all.put('a', 'text');
    const wrong: [object, RegExp][] = [
      [{}, /Exactly one of "content" and "edits"/],
      [{ content: 'x', edits: [{ oldText: 'a', newText: 'b' }] }, /Exactly one of/],
      [{ edits: [] }, /edits/],
      [{ edits: [{ oldText: 'text', newText: 'text' }] }, /the same/],
      [{ edits: [{ oldText: '', newText: 'x' }] }, /oldText is empty.*"content"/],
      [{ edits: [{ oldText: 'text', newText: '\ud83d' }] }, /half a character/],
      [{ content: '\udc00' }, /half a character/],
      [{ content: 'x', expectedSha256: 'abc' }, /hexadecimal/],
      [{ content: 'x', mode: 0o777 }, /mode/],
    ];
    for (const [args, words] of wrong) {
      const refused = await all.refused('edit_file', { path: 'a', ...args });
      expect(refused).toEqual({ code: 'REQUEST_INVALID', text: expect.stringMatching(words) });
    }
    expect(all.get('a')).toBe('text');
  });

  test('keep line endings, mark, encoding and the missing last break', async () => {
    all.put('crlf', '\ufeffone\r\ntwo');
    expect(await edit('crlf', { oldText: 'one\ntwo', newText: '1\n2\n3' })).toMatchObject({
      edits: [{ strategy: 'line-endings' }],
      lineEnding: 'crlf',
      bom: true,
    });
    expect(all.get('crlf')).toBe('\ufeff1\r\n2\r\n3');
    all.put('wide', Buffer.from('\ufeffgrün\n', 'utf16le').swap16());
    expect(await edit('wide', { oldText: 'grün', newText: '緑😀' })).toMatchObject({ encoding: 'utf-16be' });
    expect(bytesOf('wide').swap16().toString('utf16le')).toBe('\ufeff緑😀\n');
  });

  test('say in what the text found differed', async () => {
    all.put('a', 'if (x) {\n\treturn;  \n}\n');
    const { content } = await all.call('edit_file', {
      path: 'a',
      edits: [{ oldText: '\treturn;\n}', newText: '\treturn 1;\n}' }],
    });
    expect(content[0].text).toContain('Matched except for trailing-whitespace.');
    expect(all.get('a')).toBe('if (x) {\n\treturn 1;\n}\n');
  });

  test('nothing in them is a pattern', async () => {
    all.put('a', 'price: $1 (a+)+$');
    await edit('a', { oldText: '(a+)+$', newText: '$& $1 $$ $` \\1' });
    expect(all.get('a')).toBe('price: $1 $& $1 $$ $` \\1');
  });

  test('of what is no text are refused; replacing it whole is not', async () => {
    all.put('a.bin', Uint8Array.of(1, 0, 2));
    const refused = await all.refused('edit_file', { path: 'a.bin', edits: [{ oldText: 'a', newText: 'b' }] });
    expect(refused).toMatchObject({ code: 'FILE_WRONG_KIND', text: expect.stringContaining('"content"') });
    expect(await all.data('edit_file', { path: 'a.bin', content: 'text\n' })).toMatchObject({
      diff: null,
      created: false,
    });
    expect(all.get('a.bin')).toBe('text\n');
  });
});

test('W6: a short edit that would make a file without end is refused before it is made', async () => {
  all.put('bomb', 'a\n'.repeat(20_000));
  const bomb = { path: 'bomb', edits: [{ oldText: 'a', newText: 'x'.repeat(500_000), replaceAll: true }] };
  const { code, text } = await all.refused('edit_file', bomb);
  expect(code).toBe('FILE_TOO_LARGE');
  expect(text).toContain('edits[0]');
  expect(all.get('bomb')).toBe('a\n'.repeat(20_000));
});

describe('content', () => {
  test('W1: creates a file and its folders, and replaces one', async () => {
    expect(await all.call('edit_file', { path: 'a/b/c.txt', content: 'new\n' })).toMatchObject({
      structuredContent: { created: true, changed: true, lines: 1, added: 1, removed: 0, diff: null },
      content: [{ type: 'text', text: 'Created a/b/c.txt: 1 line, 4 bytes.' }],
    });
    expect(await all.data('edit_file', { path: 'a/b/c.txt', content: 'other\n' })).toMatchObject({
      created: false,
      diff: expect.stringContaining('-new\n+other\n'),
    });
    expect(await edit('d', { oldText: '', newText: 'x' }, { oldText: 'x', newText: 'y' })).toMatchObject({
      created: true,
    });
    expect(all.get('d')).toBe('y');
  });

  test('a byte order mark is written once, whether the file or the content has it', async () => {
    all.put('a', '\ufeffone\n');
    expect(await all.data('edit_file', { path: 'a', content: '\ufefftwo\n' })).toMatchObject({ bom: true, lines: 1 });
    expect(all.get('a')).toBe('\ufefftwo\n');
    await all.data('edit_file', { path: 'a', content: 'three\n' });
    expect(all.get('a')).toBe('\ufeffthree\n');
    expect(await all.data('edit_file', { path: 'b', content: '\ufefffour' })).toMatchObject({ bom: true });
    expect(all.get('b')).toBe('\ufefffour');
  });

  test('W8: a link that leads nowhere is not written through, and the refusal says what to do', async () => {
    symlinkSync('none', join(all.folder, 'link'));
    const refused = await all.refused('edit_file', { path: 'link', content: 'x' });
    expect(refused).toMatchObject({ code: 'FILE_EXISTS', text: expect.stringContaining('session_delete_file') });
    expect(readdirSync(all.folder)).toEqual(['link']);
  });

  test('what is so already is not written', async () => {
    all.put('a', 'same');
    const { mtimeMs, ino } = statSync(join(all.folder, 'a'));
    const result = await all.call('edit_file', { path: 'a', content: 'same' });
    expect(result).toMatchObject({
      structuredContent: { changed: false, diff: '' },
      content: [{ text: 'a already has this content.' }],
    });
    expect(statSync(join(all.folder, 'a'))).toMatchObject({ mtimeMs, ino });
  });

  test('W8: edits of a file that is not there say how to create it', async () => {
    const refused = await all.refused('edit_file', { path: 'none', edits: [{ oldText: 'a', newText: 'b' }] });
    expect(refused).toMatchObject({
      code: 'FILE_NOT_FOUND',
      text: expect.stringContaining('pass "content" to create it'),
    });
    expect(readdirSync(all.folder)).toEqual([]);
  });

  test('more than a file may hold is refused, and nothing is changed', async () => {
    all.put('a', 'x');
    for (const args of [{ content: 'x'.repeat(100_001) }, { edits: [{ oldText: 'x', newText: 'y'.repeat(100_001) }] }])
      expect((await all.refused('edit_file', { path: 'a', ...args })).code).toBe('FILE_TOO_LARGE');
    expect(all.get('a')).toBe('x');
    all.put('large', 'x'.repeat(200_000));
    const refused = await all.refused('edit_file', { path: 'large', edits: [{ oldText: 'x', newText: 'y' }] });
    expect(refused).toMatchObject({ code: 'FILE_TOO_LARGE', text: expect.stringContaining('"content"') });
    expect(await all.data('edit_file', { path: 'large', content: 'small' })).toMatchObject({
      created: false,
      diff: null,
    });
    expect(readdirSync(all.folder).sort()).toEqual(['a', 'large']);
  });

  test('nothing is written where sessions may not write, nor outside', async () => {
    symlinkSync('/tmp', join(all.folder, 'out'));
    for (const path of ['.git/hooks/pre-commit', '.env', '.vscode/tasks.json'])
      expect((await all.refused('edit_file', { path, content: 'x' })).code).toBe('PATH_PROTECTED');
    for (const path of ['../x', '/tmp/x', 'out/x'])
      expect((await all.refused('edit_file', { path, content: 'x' })).code).toBe('PATH_VIOLATION');
    expect(readdirSync(all.folder)).toEqual(['out']);
  });
});

describe('with others', () => {
  test('a dry run tells everything and does nothing', async () => {
    all.put('a', 'one\n');
    const real = { path: 'a', edits: [{ oldText: 'one', newText: 'two' }] };
    const dry = await all.data('edit_file', { ...real, dryRun: true });
    expect(all.get('a')).toBe('one\n');
    expect({ ...dry, dryRun: false }).toEqual(await all.data('edit_file', real));
    await all.data('edit_file', { path: 'new/b', content: 'x', dryRun: true });
    expect(readdirSync(all.folder)).toEqual(['a']);
  });

  test('a dry run is refused wherever the edit would be', async () => {
    all.put('.git/config', 'kept');
    all.put('file', 'x');
    symlinkSync('none', join(all.folder, 'dangling'));
    symlinkSync('.git/config', join(all.folder, 'link'));
    for (const path of [
      '.git/config',
      '.git/hooks/new',
      'link',
      '.env',
      'n/.env',
      'dangling',
      'file/x',
      'n/',
      '../x',
      '.',
    ]) {
      const dry = await all.refused('edit_file', { path, content: 'other', dryRun: true });
      expect(dry, path).toEqual(await all.refused('edit_file', { path, content: 'other' }));
      expect(dry.code, path).toBeDefined();
    }
    expect(readdirSync(all.folder).sort()).toEqual(['.git', 'dangling', 'file', 'link']);
    expect(all.get('.git/config')).toBe('kept');
  });

  test('expectedSha256 guards against what was not read', async () => {
    all.put('a', 'one');
    const args = { path: 'a', edits: [{ oldText: 'one', newText: 'two' }] };
    const refused = await all.refused('edit_file', { ...args, expectedSha256: sha256('other') });
    expect(refused).toMatchObject({ code: 'FILE_CHANGED', text: expect.stringContaining(sha256('one')) });
    const { sha256: read } = await all.data<{ sha256: string }>('read_file', { path: 'a' });
    const { sha256: written } = await all.data('edit_file', { ...args, expectedSha256: read });
    expect(written).toBe(sha256('two'));
    const gone = await all.refused('edit_file', { path: 'b', content: 'x', expectedSha256: read });
    expect(gone).toMatchObject({ code: 'FILE_CHANGED', text: expect.stringContaining('no longer exists') });
    expect(all.get('a')).toBe('two');
  });

  test('W6: edits at the same time are all there in the end', async () => {
    const each = counts(20, 200);
    all.put('a', Array.from({ length: each }, (_, i) => `<${i}>\n`).join(''));
    await Promise.all(Array.from({ length: each }, (_, i) => edit('a', { oldText: `<${i}>`, newText: `[${i}]` })));
    expect(all.get('a')).toBe(Array.from({ length: each }, (_, i) => `[${i}]\n`).join(''));
  });

  test('W6: a concurrent write outside of the mutex is not lost either', async () => {
    all.put('a', 'ours\ntheirs\n');
    const { write } = all.files;
    let interferences = 0;
    Object.assign(all.files, {
      write: async (...args: Parameters<typeof write>) => {
        if (interferences++ < 2) await write('a', Buffer.from(`ours\ntheirs ${interferences}\n`));
        return write(...args);
      },
    });
    await edit('a', { oldText: 'ours', newText: 'OURS' });
    expect(all.get('a')).toBe('OURS\ntheirs 2\n');
    interferences = 0;
    const guarded = { path: 'a', content: 'mine', expectedSha256: sha256('OURS\ntheirs 2\n') };
    expect((await all.refused('edit_file', guarded)).code).toBe('FILE_CHANGED');
    expect(all.get('a')).toBe('ours\ntheirs 1\n');
    interferences = Number.NEGATIVE_INFINITY;
    expect((await all.refused('edit_file', { path: 'a', content: 'mine' })).code).toBe('FILE_CHANGED');
  });

  test('any file: what a plain model says is what is in it, whatever its encoding', async () => {
    const part = fc.string({ unit: fc.constantFrom('a', 'b', '\n', 'é', '😀', '$', '\u2028'), maxLength: 20 });
    const encodings = fc.constantFrom<BufferEncoding>('utf8', 'utf16le');
    await fc.assert(
      fc.asyncProperty(part, part, part, fc.boolean(), encodings, async (before, after, newText, crlf, encoding) => {
        const ended = (text: string) => (crlf ? text.replaceAll('\n', '\r\n') : text);
        const mark = encoding === 'utf8' ? '' : '\ufeff';
        const inFile = (text: string) => Buffer.from(mark + ended(text), encoding);
        all.put('any', inFile(`\n${before}<>${after}`));
        await edit('any', { oldText: '<>', newText });
        expect(bytesOf('any')).toEqual(inFile(`\n${before}${newText}${after}`));
      }),
      { numRuns: counts(60, 3000) },
    );
  });
});

test('large files are edited one after the other, and all are', async () => {
  const large = createTestFiles();
  onTestFinished(() => large.close());
  const names = ['a', 'b', 'c', 'd'];
  for (const name of names) large.put(name, `${'x\n'.repeat(1_200_000)}end\n`);
  let reading = 0;
  let most = 0;
  const files: SessionFiles = {
    ...large.files,
    async open(path) {
      const file = await large.files.open(path);
      return {
        ...file,
        async read(offset, length) {
          most = Math.max(most, ++reading);
          return file.read(offset, length);
        },
      };
    },
    async write(...args) {
      const written = await large.files.write(...args);
      reading--;
      return written;
    },
  };
  const change = { edits: [{ oldText: 'end', newText: 'END' }] };
  await Promise.all(names.map((path) => editFile(files, { path, change, dryRun: false, expectedSha256: undefined })));
  for (const name of names) expect(large.get(name)).toMatch(/END\n$/);
  expect(most).toBe(1);
  const missing = { edits: [{ oldText: 'end', newText: 'END' }] };
  await expect(
    editFile(large.files, { path: 'a', change: missing, dryRun: false, expectedSha256: undefined }),
  ).rejects.toMatchObject({ code: 'EDIT_NO_MATCH' });
  // Whoever fails makes room too.
  await editFile(large.files, {
    path: 'a',
    change: { content: '', literal: false },
    dryRun: false,
    expectedSha256: undefined,
  });
  expect(large.get('a')).toBe('');
});
