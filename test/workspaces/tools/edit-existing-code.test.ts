import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { createTestFiles, type TestFiles } from './file-tool-fixture.ts';

let all: TestFiles;

beforeEach(() => {
  all = createTestFiles(100_000);
  all.put('a.py', file);
});
afterEach(() => all.close());

const file = 'import os\n\ndef one():\n    return 1\n\ndef two():\n    return 2\n';
const mark = '# ... existing code ...';
const edited = `${mark}\ndef one():\n    x = 1\n    return 1\n${mark}\n`;
const now = file.replace('    return 1', '    x = 1\n    return 1');
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');

describe('a content with markers', () => {
  test('W1: keeps the lines of the file at the markers, and tells what changed', async () => {
    const dry = await all.call('edit_file', { path: 'a.py', content: edited, dryRun: true });
    expect(all.get('a.py')).toBe(file);
    const diff =
      '--- a/a.py\n+++ b/a.py\n@@ -1,6 +1,7 @@\n import os\n \n def one():\n+    x = 1\n     return 1\n \n def two():\n';
    expect(dry.content[0].text).toBe(
      `Would change a.py: +1 −0 lines, now 8 lines, 70 bytes. Lines at "existing code" markers were kept.\n\n${diff}`,
    );
    const { structuredContent } = await all.call('edit_file', { path: 'a.py', content: edited });
    expect(structuredContent).toEqual({ ...dry.structuredContent, dryRun: false });
    expect(structuredContent).toMatchObject({
      created: false,
      changed: true,
      sha256: sha256(now),
      edits: [{ strategy: 'existing-code', replacements: 1, line: 3 }],
    });
    expect(all.get('a.py')).toBe(now);
    expect(await all.data('edit_file', { path: 'a.py', content: edited })).toMatchObject({ changed: false });
  });

  test('is written as it is with "literal", and where no marker is a line of its own', async () => {
    await all.data('edit_file', { path: 'a.py', content: edited, literal: true });
    expect(all.get('a.py')).toBe(edited);
    await all.data('edit_file', { path: 'new.py', content: edited, literal: true });
    expect(all.get('new.py')).toBe(edited);
    const mention = 'marker = "# ... existing code ..."\n# This is for existing code.\n';
    await all.data('edit_file', { path: 'a.py', content: mention });
    expect(all.get('a.py')).toBe(mention);
  });

  test('keeps byte order mark, encoding and line endings', async () => {
    const wide = Buffer.from(`\ufeff${file.replaceAll('\n', '\r\n')}`, 'utf16le');
    all.put('wide', wide);
    await all.data('edit_file', { path: 'wide', content: `\ufeff${edited}` });
    expect(readFileSync(join(all.folder, 'wide'), 'utf16le')).toBe(`\ufeff${now.replaceAll('\n', '\r\n')}`);
  });

  test('works with expectedSha256, and on the newest content without it', async () => {
    const guarded = { path: 'a.py', content: edited, expectedSha256: sha256('other') };
    expect((await all.refused('edit_file', guarded)).code).toBe('FILE_CHANGED');
    const { write } = all.files;
    let isFirst = true;
    Object.assign(all.files, {
      write: async (...args: Parameters<typeof write>) => {
        if (isFirst) await write('a.py', Buffer.from(`${file}# theirs\n`));
        isFirst = false;
        return write(...args);
      },
    });
    await all.data('edit_file', { path: 'a.py', content: edited });
    expect(all.get('a.py')).toBe(`${now}# theirs\n`);
  });

  test('W6: at the same time as others, all changes are there in the end', async () => {
    const each = counts(20, 200);
    const lines = Array.from({ length: each }, (_, i) => [`<${i}>`, `</${i}>`]).flat();
    all.put('a', `${lines.join('\n')}\n`);
    await Promise.all(
      Array.from({ length: each }, (_, i) =>
        all.data('edit_file', { path: 'a', content: `${mark}\n<${i}>\n${i}\n</${i}>\n${mark}\n` }),
      ),
    );
    expect(all.get('a')).toBe(Array.from({ length: each }, (_, i) => `<${i}>\n${i}\n</${i}>\n`).join(''));
  });
});

describe('W8: a content with markers that does not fit', () => {
  test.each<[string, string, RegExp]>([
    [
      `${mark}\ndef ones():\n    return 1\n${mark}`,
      'EDIT_NO_MATCH',
      /^EDIT_NO_MATCH: Line 2 of content, "def ones\(\):", is not in "a\.py"\. A block between "existing code" markers must start with .* Nearest: line 3 has "def one\(\):" where content has "def ones\(\):".*Begin the block further up/,
    ],
    [
      `${mark}\nimport os\n\n\tdef one():\n${mark}`,
      'EDIT_NO_MATCH',
      /must end with .*only whitespace differs: at column 1 the file has nothing, content has 1 tab\)/,
    ],
    [
      `${mark}\ndef two():\n    return 3\n`,
      'REQUEST_INVALID',
      /no "existing code" marker after line 3 of content, so "a\.py" would end with it\. Lines between 6 and 7 of the file would be lost/,
    ],
    [
      `def two():\n    return 2\n${mark}`,
      'REQUEST_INVALID',
      /no "existing code" marker before line 1 of content.* Lines between 1 and 7 .*Add a marker before it/,
    ],
    [
      `${mark}\n    return 2\n${mark}\ndef one():\n${mark}`,
      'EDIT_NO_MATCH',
      /Line 4 of content, "def one\(\):", is line 3 of "a\.py", but the part of content before it reaches to line 7\./,
    ],
    [
      `${mark}\ndef one():\nx\ndef one():\n${mark}`,
      'EDIT_AMBIGUOUS',
      /first and the last line of a block, but "a\.py" has it only once, on line 3\./,
    ],
    [mark, 'REQUEST_INVALID', /only "existing code" markers, so it changes nothing/],
    [`${mark}\nimport os\n`.repeat(101), 'REQUEST_INVALID', /more than 100 blocks/],
    [
      'import os\n# ... rest of code ...\n',
      'REQUEST_INVALID',
      /^REQUEST_INVALID: Line 2 of content, "# \.\.\. rest of code \.\.\.", seems to stand for lines of "a\.py", which would be lost\..*"literal": true/,
    ],
  ])('is refused with what to do, and nothing is written: %j', async (content, code, words) => {
    const refused = await all.refused('edit_file', { path: 'a.py', content });
    expect(refused).toEqual({ code, text: expect.stringMatching(words) });
    expect(await all.refused('edit_file', { path: 'a.py', content, dryRun: true })).toEqual(refused);
    expect(all.get('a.py')).toBe(file);
    expect(readdirSync(all.folder)).toEqual(['a.py']);
  });

  test('is refused for lines that are there several times, with where', async () => {
    all.put('b', 'x\n'.repeat(500));
    const { code, text } = await all.refused('edit_file', { path: 'b', content: `${mark}\nx\ny\n${mark}` });
    expect(code).toBe('EDIT_AMBIGUOUS');
    expect(text).toContain('several times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …. A block between');
    all.put('b', `${mark}\n${file}`);
    const both = await all.refused('edit_file', { path: 'b', content: edited });
    expect(both).toMatchObject({ code: 'EDIT_AMBIGUOUS', text: expect.stringContaining('Line 1 of "b" is itself') });
    expect(all.get('b')).toBe(`${mark}\n${file}`);
  });

  test('is refused where there is no text to keep', async () => {
    all.put('a.bin', Uint8Array.of(1, 0, 2));
    all.put('large', `${'x'.repeat(200_000)}\ndef one():\n    return 1\n`);
    all.put('empty', '');
    const refusals: [string, string, RegExp][] = [
      ['none.py', 'FILE_NOT_FOUND', /"existing code" markers keep lines of a file that exists.*"literal": true/],
      ['a.bin', 'FILE_WRONG_KIND', /without "existing code" markers/],
      ['large', 'FILE_TOO_LARGE', /without "existing code" markers/],
      ['empty', 'EDIT_NO_MATCH', /is not in "empty"/],
    ];
    for (const [path, code, words] of refusals)
      expect(await all.refused('edit_file', { path, content: edited })).toEqual({
        code,
        text: expect.stringMatching(words),
      });
    expect(readdirSync(all.folder).sort()).toEqual(['a.bin', 'a.py', 'empty', 'large']);
    for (const path of ['none.py', 'a.bin', 'empty'])
      await all.data('edit_file', { path, content: '# ... rest of code ...\n' });
    expect(all.get('none.py')).toBe('# ... rest of code ...\n');
  });

  test('S1: shows nothing of a file that sessions may not read, and nothing that forges or hides text', async () => {
    for (const path of ['.env', '.git/config', '../a.py'])
      for (const change of [{ content: edited }, { edits: [{ oldText: 'def one', newText: '' }] }]) {
        const { code, text } = await all.refused('edit_file', { path, ...change });
        expect(code).toMatch(/^(?:PATH_PROTECTED|PATH_VIOLATION|FILE_NOT_FOUND)$/);
        expect(text).not.toContain('Nearest');
      }
    const hidden = `return 1\u001b[2K\u202e\u{e0041}\u00a0;`;
    all.put('b', `def one():\n${hidden}${'x'.repeat(5000)}\nend\n`);
    for (const change of [
      { content: `${mark}\nreturn 1;${'x'.repeat(5000)}\n${mark}` },
      { edits: [{ oldText: `return 1;${'x'.repeat(5000)}`, newText: '' }] },
    ]) {
      const { text } = await all.refused('edit_file', { path: 'b', ...change });
      expect(text).toContain('line 2 has "return 1\\u001b[2K\\u202e\\u{e0041}\\u00a0;');
      expect(text).toMatch(/^[\x20-\x7e…]+$/);
      expect(text.length).toBeLessThan(1000);
    }
  });
});
