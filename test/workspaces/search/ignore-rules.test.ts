import { describe, expect, test } from 'vitest';
import { parseIgnoreFile } from '../../../src/workspaces/search/ignore-rules.ts';

describe('lines of .gitignore', () => {
  const says = async (text: string, path: string, isFolder = false) => (await parseIgnoreFile(text))(path, isFolder);

  test.each([
    ['*.log', 'a/b.log', 'ignored'],
    ['*.log\n!keep.log', 'a/keep.log', 'wanted'],
    ['!keep.log\n*.log', 'keep.log', 'ignored'],
    ['/build', 'build', 'ignored'],
    ['/build', 'a/build', undefined],
    ['doc/*.txt', 'doc/a.txt', 'ignored'],
    ['doc/*.txt', 'x/doc/a.txt', undefined],
    ['a/**', 'a', undefined],
    ['a/**', 'a/b/c', 'ignored'],
    ['# comment', '# comment', undefined],
    ['\\#x', '#x', 'ignored'],
    ['\\!x', '!x', 'ignored'],
    ['trailing   ', 'trailing', 'ignored'],
    ['space\\ ', 'space ', 'ignored'],
    ['crlf\r', 'crlf', 'ignored'],
    ['\ufefffirst', 'first', 'ignored'],
    ['[unclosed\nx', 'x', 'ignored'],
    ['?', 'x', 'ignored'],
    ['?', 'é', undefined],
    ['??é', 'éé', 'ignored'],
    ['/', 'x', undefined],
    ['', 'x', undefined],
  ])('%j says of %s: %s', async (text, path, expected) => {
    expect(await says(text, path)).toBe(expected);
  });

  test('a line that ends in a slash is about folders only', async () => {
    expect(await says('build/', 'a/build', true)).toBe('ignored');
    expect(await says('build/', 'a/build', false)).toBe(undefined);
  });

  test('a file of a million lines is bounded', async () => {
    const rules = await parseIgnoreFile(`${'{a,b,c,d}*x\n'.repeat(1_000_000)}needle`);
    expect(rules('needle', false)).toBe(undefined);
    expect(rules('ax', false)).toBe('ignored');
  });
});
