import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../../src/lib/text/glob.ts';
import { counts } from '../../proof.ts';

const compileAnywhere = (glob: string) => compileGlob(glob, { matchAnyFolder: true });

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
    ['/top', ['top'], ['a/top']],
    ['a/**/z', ['a/z', 'a/b/c/z'], ['z', 'a/b']],
    ['./a/', ['a'], ['b/a']],
    ['*a*b*c*', ['xxaxxbxxcxx'], ['xxaxxcxxbxx']],
  ])('%s', (glob, fitting, others) => {
    for (const path of fitting) expect(compileAnywhere(glob).matches(path), path).toBe(true);
    for (const path of others) expect(compileAnywhere(glob).matches(path), path).toBe(false);
  });

  test.each([
    ['{a,b', '"{" has no "}"'],
    ['a}', '"}" has no "{"'],
    ['[a', '"[" has no "]"'],
    ['[z-a]', 'not a valid range'],
    ['a\\', 'ends with a backslash'],
    ['{a,b}'.repeat(20), 'more than 256'],
    [`${'{a,'.repeat(40)}x${'}'.repeat(40)}`, 'nested too deeply'],
    ['a/'.repeat(400), 'more than 64 parts'],
    ['x'.repeat(2000), 'longer than'],
  ])('an invalid glob is refused: %s', (glob, why) => {
    expect(() => compileAnywhere(glob)).toThrow(why);
  });

  test('stars match like a simple reference matcher', () => {
    const slow = (pattern: string, name: string): boolean => {
      if (pattern === '') return name === '';
      if (pattern[0] === '*') return slow(pattern.slice(1), name) || (name !== '' && slow(pattern, name.slice(1)));
      return name !== '' && (pattern[0] === '?' || pattern[0] === name[0]) && slow(pattern.slice(1), name.slice(1));
    };
    const letters = (characters: string, most: number) =>
      fc.array(fc.constantFrom(...characters), { minLength: 1, maxLength: most }).map((all) => all.join(''));
    fc.assert(
      fc.property(letters('ab*?', 8), letters('ab', 10), (pattern, name) => {
        fc.pre(pattern !== '**');
        expect(compileGlob(pattern).fits([name])).toBe(slow(pattern, name));
      }),
    );
  });

  test('a folder is entered only if something in it could match', () => {
    const glob = compileGlob('src/**/api/*.ts');
    for (const folder of ['.', 'src', 'src/x', 'src/x/api']) expect(glob.mayContain(folder), folder).toBe(true);
    for (const folder of ['lib', 'srcs/x']) expect(glob.mayContain(folder), folder).toBe(false);
    expect(compileGlob('*/x').mayContain('a/x')).toBe(false);
  });

  test('every match lies in folders that are entered', () => {
    const name = fc.constantFrom('a', 'b', 'ab', '.git', 'é');
    const part = fc.oneof(name, fc.constantFrom('*', '**', '?', 'a*', '{a,b}', '[!a]', '*b*'));
    const path = fc.array(name, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), path, (parts, names) => {
        const glob = compileAnywhere(parts.join('/'));
        if (!glob.matches(names.join('/'))) return;
        for (let end = 1; end < names.length; end++) expect(glob.mayContain(names.slice(0, end).join('/'))).toBe(true);
      }),
      { numRuns: counts(500, 50_000) },
    );
  });

  test('hostile globs and names do not hang', () => {
    const hostile = [`${'*a'.repeat(400)}b`, `${'**/'.repeat(60)}x`, `${'?*'.repeat(400)}b`, `${'{a,aa}'.repeat(8)}b`];
    const paths = ['a'.repeat(4000), Array(1000).fill('a').join('/'), `${'a'.repeat(250)}/`.repeat(10)];
    for (const glob of hostile) for (const path of paths) expect(compileAnywhere(glob).matches(path)).toBe(false);
  });
});
