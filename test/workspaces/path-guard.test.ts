import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../src/workspaces/glob.ts';
import { createPathGuard } from '../../src/workspaces/path-guard.ts';
import { pathRules } from '../../src/workspaces/path-rules.ts';

const same = (text: string) => text;
const fits = (pattern: string, path: string) =>
  compileGlob(pattern, same).some((glob) =>
    glob.anywhere ? glob.fits([path.split('/').at(-1) as string]) : glob.fits(path.split('/')),
  );

describe('globs', () => {
  test.each([
    ['*.pem', 'a/b/key.pem', true],
    ['*.pem', 'key.pem.txt', false],
    ['id_rsa*', 'id_rsa', true],
    ['a?c', 'abc', true],
    ['a?c', 'ac', false],
    ['[a-c]x', 'bx', true],
    ['[!a-c]x', 'bx', false],
    ['[!a-c]x', 'dx', true],
    ['[', '[', true],
    ['\\*', '*', true],
    ['\\*', 'x', false],
    ['{a,b}.{js,ts}', 'b.ts', true],
    ['{a,b}.{js,ts}', 'c.ts', false],
    ['docs/*.md', 'docs/a.md', true],
    ['docs/*.md', 'x/docs/a.md', false],
    ['docs/*.md', 'docs/a/b.md', false],
    ['/top', 'top', true],
    ['/top', 'a/top', false],
    ['**/x/y', 'x/y', true],
    ['**/x/y', 'a/b/x/y', true],
    ['a/**', 'a/b/c', true],
    ['a/**', 'a', false],
    ['a/**/z', 'a/z', true],
    ['a/**/z', 'a/b/c/z', true],
    ['./a/', 'a', true],
    ['', '', false],
    ['*a*b*c*', 'xxaxxbxxcxx', true],
    ['*a*b*c*', 'xxaxxcxxbxx', false],
    ['😀?', '😀x', true],
  ])('%s and %s: %s', (pattern, path, expected) => {
    expect(fits(pattern, path)).toBe(expected);
  });

  test('stars fit as the plainest matcher says', () => {
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
        expect(fits(pattern, name)).toBe(slow(pattern, name));
      }),
    );
  });

  test('no pattern takes long', () => {
    expect(fits(`${'*a'.repeat(100)}b`, 'a'.repeat(255))).toBe(false);
    expect(fits(`{${'a,'.repeat(300)}b}`.repeat(4), 'b')).toBe(false);
  });
});

describe('W7: the guard', () => {
  const guard = createPathGuard(
    pathRules({ hide: ['secrets/**/*.json'], keep: ['deploy/'], open: ['.vscode/a.json'] }),
  );
  const verdict = (path: string) =>
    guard.refusal('read', path.split('/')) !== undefined
      ? 'hidden'
      : guard.refusal('write', path.split('/')) !== undefined
        ? 'kept'
        : 'free';

  test.each([
    ['src/index.ts', 'free'],
    ['environment', 'free'],
    ['.envoy', 'free'],
    ['.github/workflows/x.yml', 'free'],
    ['.gitignore', 'free'],
    ['a/b/.env', 'hidden'],
    ['.env.production', 'hidden'],
    ['.env.example', 'free'],
    ['.env.example/.env', 'hidden'],
    ['.ENV.Local', 'hidden'],
    ['.env.', 'hidden'],
    ['.env...  ', 'hidden'],
    ['.env:stream', 'hidden'],
    ['.env.:x', 'hidden'],
    ['id_rsa.pub', 'free'],
    ['id_rsa.pub:x', 'hidden'],
    ['.s\u200dsh/x', 'hidden'],
    ['.\uff53\uff53\uff48/x', 'hidden'],
    ['.AWS', 'hidden'],
    ['.docker/config.json', 'hidden'],
    ['.DOCKER/CONFIG.json.', 'hidden'],
    ['.docker/other.json', 'free'],
    ['secrets/a/b/c.json', 'hidden'],
    ['secrets/c.json', 'hidden'],
    ['secrets/c.txt', 'free'],
    ['.git', 'kept'],
    ['.GIT/hooks/x', 'kept'],
    ['.g\u0131t/config', 'kept'],
    ['sub/.git/config', 'kept'],
    ['.git /config', 'kept'],
    ['.git/x/.env', 'hidden'],
    ['deploy', 'kept'],
    ['deploy/a', 'kept'],
    ['x/deploy/a', 'kept'],
    ['.vscode/a.json', 'free'],
    ['.vscode/b.json', 'kept'],
    ['.vscode', 'kept'],
  ])('%s is %s', (path, expected) => {
    expect(verdict(path)).toBe(expected);
  });

  test('accents make no difference, however they are written', () => {
    const named = createPathGuard({ hidden: ['Schlüssel'], kept: [], open: [] });
    for (const name of ['schlüssel', 'SCHLU\u0308SSEL', 'Schlu\u0308ssel', 'Schlüßel'.replace('ß', 'ss')]) {
      expect(named.refusal('read', [name])).toBeDefined();
    }
  });

  test('changing the case of letters or adding what nobody sees opens nothing', () => {
    const odd = (name: string) =>
      fc
        .array(fc.tuple(fc.boolean(), fc.constantFrom('', '', '', '\u200b', '\u00ad', '\ufe0f')), {
          minLength: name.length,
          maxLength: name.length,
        })
        .map((how) =>
          [...name].map((letter, at) => (how[at]?.[0] ? letter.toUpperCase() : letter) + (how[at]?.[1] ?? '')).join(''),
        );
    const closed = fc.constantFrom('.env', '.git', '.ssh', '.netrc', 'id_ed25519', '.mcp.json').chain(odd);
    fc.assert(
      fc.property(closed, fc.constantFrom('', '.', ' ', '. .', ':$DATA'), (name, end) => {
        expect(guard.refusal('write', ['a', name + end, 'x'])).toBeDefined();
      }),
    );
  });
});
