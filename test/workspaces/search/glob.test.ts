import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../../src/workspaces/search/glob.ts';
import { readIgnoreFile } from '../../../src/workspaces/search/ignore-file.ts';
import { counts } from '../../proof.ts';

const anywhere = (glob: string) => compileGlob(glob, { anywhere: true });

describe('globs over paths', () => {
  test.each([
    ['*.ts', ['a.ts', 'src/a.ts', '.ts', 'a/b/c.ts'], ['a.tsx', 'ts', 'a.ts/b']],
    ['src/*.ts', ['src/a.ts'], ['a.ts', 'src/x/a.ts', 'lib/src/a.ts']],
    ['src/**/*.ts', ['src/a.ts', 'src/x/y/a.ts'], ['a.ts', 'lib/src/a.ts']],
    ['**/test/**', ['test/a', 'x/test/y/z'], ['test', 'tests/a']],
    ['src/**', ['src/a', 'src/a/b'], ['src', 'srcs/a']],
    ['{a,b}.{js,ts}', ['a.js', 'b.ts', 'x/a.ts'], ['c.ts', 'a.jsx']],
    ['src/{api,web/{x,y}}/*', ['src/api/f', 'src/web/x/f'], ['src/web/f']],
    ['file[0-9].txt', ['file1.txt'], ['filea.txt', 'file10.txt']],
    ['[!a]b', ['bb', 'ßb'], ['ab', 'b']],
    ['[]]x', [']x'], ['x']],
    ['?', ['a', 'é', '😀'], ['ab', '']],
    ['\\*\\{', ['*{'], ['a{']],
    ['a**b', ['ab', 'axxb'], ['a/b']],
    ['**', ['a', 'a/b/c'], []],
    ['ünï/*', ['ünï/x'], ['uni/x']],
  ])('%s', (glob, fitting, others) => {
    for (const path of fitting) expect(anywhere(glob).matches(path), path).toBe(true);
    for (const path of others) expect(anywhere(glob).matches(path), path).toBe(false);
  });

  test.each([
    ['{a,b', '"{" has no "}"'],
    ['a}', '"}" has no "{"'],
    ['[a', '"[" has no "]"'],
    ['[z-a]', 'no range'],
    ['a\\', 'ends with a backslash'],
    ['{a,b}'.repeat(20), 'more than 256'],
    [`${'{a,'.repeat(40)}x${'}'.repeat(40)}`, 'nested too deeply'],
    ['a/'.repeat(400), 'more than 64 parts'],
    ['x'.repeat(2000), 'longer than'],
  ])('what cannot be read is refused: %s', (glob, why) => {
    expect(() => anywhere(glob)).toThrow(why);
  });

  test('a folder is entered only when something in it could fit', () => {
    const glob = compileGlob('src/**/api/*.ts');
    for (const folder of ['.', 'src', 'src/x', 'src/x/api']) expect(glob.mayHold(folder), folder).toBe(true);
    for (const folder of ['lib', 'srcs/x']) expect(glob.mayHold(folder), folder).toBe(false);
    expect(compileGlob('*/x').mayHold('a/x')).toBe(false);
  });

  test('whatever fits lies in folders that are entered', () => {
    const name = fc.constantFrom('a', 'b', 'ab', '.git', 'é');
    const part = fc.oneof(name, fc.constantFrom('*', '**', '?', 'a*', '{a,b}', '[!a]', '*b*'));
    const path = fc.array(name, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), path, (parts, names) => {
        const glob = anywhere(parts.join('/'));
        if (!glob.matches(names.join('/'))) return;
        for (let end = 1; end < names.length; end++) expect(glob.mayHold(names.slice(0, end).join('/'))).toBe(true);
      }),
      { numRuns: counts(500, 50_000) },
    );
  });

  test('globs and names that are meant to hang do not', () => {
    const hostile = [`${'*a'.repeat(400)}b`, `${'**/'.repeat(60)}x`, `${'?*'.repeat(400)}b`, `${'{a,aa}'.repeat(8)}b`];
    const paths = ['a'.repeat(4000), Array(1000).fill('a').join('/'), `${'a'.repeat(250)}/`.repeat(10)];
    for (const glob of hostile) for (const path of paths) expect(anywhere(glob).matches(path)).toBe(false);
  });
});

describe('lines of .gitignore', () => {
  const says = (text: string, path: string, isFolder = false) => readIgnoreFile(text)(path, isFolder);

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
  ])('%j says of %s: %s', (text, path, expected) => {
    expect(says(text, path)).toBe(expected);
  });

  test('a line that ends in a slash is about folders only', () => {
    expect(says('build/', 'a/build', true)).toBe('ignored');
    expect(says('build/', 'a/build', false)).toBe(undefined);
  });

  test('a file of a million lines is bounded', () => {
    const rules = readIgnoreFile(`${'{a,b,c,d}*x\n'.repeat(1_000_000)}needle`);
    expect(rules('needle', false)).toBe(undefined);
    expect(rules('ax', false)).toBe('ignored');
  });
});
