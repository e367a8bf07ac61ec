import { applyPatch } from 'diff';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatFileDiff } from '../../../src/lib/text/line-diff.ts';
import { counts } from '../../proof.ts';

const line = fc.constantFrom('a', 'b', '', 'c c', 'é😀', '- x', '+ y', '\\ z');
const text = fc
  .tuple(fc.array(fc.tuple(line, fc.constantFrom('\n', '\n', '\r\n')), { maxLength: 30 }), fc.constantFrom('', 'end'))
  .map(([lines, rest]) => lines.flat().join('') + rest);

test('applying the diff turns one text into the other', () => {
  fc.assert(
    fc.property(text, text, text, text, (before, after, head, tail) => {
      for (const [old, now] of [
        [before, after],
        [head + before + tail, head + after + tail],
      ] as const) {
        const diff = formatFileDiff('x', old, now);
        if (old === now) expect(diff.text).toBe('');
        else expect(applyPatch(old, diff.text as string, { autoConvertLineEndings: false })).toBe(now);
        const lines = (all: string) => all.split('\n').length - (all.endsWith('\n') || all === '' ? 1 : 0);
        expect(diff.added - diff.removed).toBe(lines(now) - lines(old));
      }
    }),
    { numRuns: counts(150, 20_000) },
  );
});

test('has the format of patches', () => {
  const old = Array.from({ length: 30 }, (_, i) => `line ${i + 1}\n`).join('');
  expect(formatFileDiff('src/a.ts', old, old.replace('line 20\n', 'line twenty\n'))).toEqual({
    added: 1,
    removed: 1,
    text: [
      '--- a/src/a.ts',
      '+++ b/src/a.ts',
      '@@ -17,7 +17,7 @@',
      ' line 17',
      ' line 18',
      ' line 19',
      '-line 20',
      '+line twenty',
      ' line 21',
      ' line 22',
      ' line 23',
      '',
    ].join('\n'),
  });
});

test('entirely different texts make one hunk, and very long ones are only counted', () => {
  const many = (word: string, count: number) => Array.from({ length: count }, (_, i) => `${word} ${i}\n`).join('');
  const exchanged = formatFileDiff('x', many('a', 1500), many('b', 1400));
  expect(exchanged).toMatchObject({ added: 1400, removed: 1500 });
  expect(applyPatch(many('a', 1500), exchanged.text as string)).toBe(many('b', 1400));
  expect(formatFileDiff('x', many('a', 200_000), many('b', 200_000))).toEqual({
    text: null,
    added: 200_000,
    removed: 200_000,
  });
  const large = many('a', 300_000);
  expect(formatFileDiff('x', large, large.replace('a 150000\n', 'b\n')).text?.split('\n')).toHaveLength(12);
});

test('a file name is quoted on one line, as git does', () => {
  for (const [name, shown] of [
    ['a b/é.ts', 'a/a b/é.ts'],
    ['x\n+++ b/y', '"a/x\\n+++ b/y"'],
    ['\u202egpj', '"a/\\342\\200\\256gpj"'],
    ['a\ufe00\u2800', '"a/a\\357\\270\\200\\342\\240\\200"'],
    ['❤\ufe0f \\', '"a/❤\ufe0f \\\\"'],
    ['say "hi"', '"a/say \\"hi\\""'],
  ] as const) {
    expect(formatFileDiff(name, '1\n', '2\n').text?.split('\n')[0]).toBe(`--- ${shown}`);
  }
});
