import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyEdit, replaceWhole, type TextEdit } from '../../../src/lib/text/apply-edit.ts';
import { detectLineEnding } from '../../../src/lib/text/line-endings.ts';
import { counts } from '../../proof.ts';

function applyOrKind(text: string, oldText: string, newText: string, replaceAll?: boolean): string {
  const outcome = applyEdit(text, { oldText, newText, replaceAll });
  return outcome.kind === 'applied' ? outcome.text : outcome.kind;
}

function findStrategy(text: string, oldText: string): string {
  const outcome = applyEdit(text, { oldText, newText: 'new' });
  return outcome.kind === 'applied' ? outcome.strategy : outcome.kind;
}

describe('exact', () => {
  test('W1: replaces one occurrence of a text', () => {
    expect(applyOrKind('a b c', 'b', 'x')).toBe('a x c');
    expect(applyOrKind('a b c', 'd', 'x')).toBe('missing');
    expect(applyEdit('one\ntwo\none\n', { oldText: 'one', newText: 'x' })).toEqual({
      kind: 'ambiguous',
      lines: [1, 3],
    });
    expect(applyOrKind('one\ntwo\none\n', 'one', 'x', true)).toBe('x\ntwo\nx\n');
  });

  test('overlapping matches are ambiguous', () => {
    expect(applyOrKind('aaa', 'aa', 'b')).toBe('ambiguous');
    expect(applyOrKind('aaaa', 'aa', 'b', true)).toBe('bb');
  });

  test('neither text is treated as a pattern', () => {
    expect(applyOrKind('cost: $1.00', '$1', '$& $1 $$ $`')).toBe('cost: $& $1 $$ $`.00');
    expect(applyOrKind('a.c abc', 'a.c', '\\0')).toBe('\\0 abc');
    expect(applyOrKind('(x)+ [y]', '(x)+', '^')).toBe('^ [y]');
  });

  test('an empty old text matches an empty file only', () => {
    expect(applyOrKind('', '', 'new')).toBe('new');
    expect(applyOrKind('x', '', 'new')).toBe('not-empty');
  });

  test('replaceAll replaces all or nothing', () => {
    const text = 'a'.repeat(110_000);
    expect(applyOrKind(text, 'aa', 'b', true)).toBe('too-many');
    expect(applyOrKind('ab'.repeat(90_000), 'ab', 'c', true)).toBe('c'.repeat(90_000));
  });
});

describe('line endings', () => {
  test('keeps CRLF', () => {
    expect(applyOrKind('one\r\ntwo\r\n', 'one\ntwo', '1\n2\n3')).toBe('1\r\n2\r\n3\r\n');
    expect(applyOrKind('one\r\ntwo\r\n', 'one', '1\n2')).toBe('1\r\n2\r\ntwo\r\n');
    expect(findStrategy('one\r\ntwo\r\n', 'one\ntwo')).toBe('line-endings');
    expect(findStrategy('one\r\ntwo\r\n', 'one\r\ntwo')).toBe('exact');
  });

  test('keeps LF if the edit has CRLF', () => {
    expect(applyOrKind('one\ntwo\n', 'one\r\ntwo', '1\r\n2')).toBe('1\n2\n');
  });

  test('an edit that begins with a line break leaves no CR behind', () => {
    expect(applyOrKind('one\r\ntwo\r\n', '\ntwo', '\n2')).toBe('one\r\n2\r\n');
    expect(applyOrKind('one\r\ntwo\r\n', '\n', ', ', true)).toBe('one, two, ');
    expect(applyOrKind('one\r\n\r\ntwo', '\n\n', '\n')).toBe('one\r\ntwo');
  });

  test('exact carriage returns in an edit are kept', () => {
    expect(applyOrKind('one\r\ntwo\r\n', '\r\n', '\n', true)).toBe('one\ntwo\n');
    expect(applyOrKind('one\ntwo\n', 'one', 'one\r')).toBe('one\r\ntwo\n');
    expect(applyOrKind('a\nb\n', '\r\n', 'x', true)).toBe('missing');
  });

  test('in a file with mixed endings, new lines end like those around them', () => {
    expect(applyOrKind('a\nb\r\nc\nd', 'b', 'x\ny')).toBe('a\nx\r\ny\r\nc\nd');
    expect(applyOrKind('a\nb\r\nc\nd', 'c', 'x\ny')).toBe('a\nb\r\nx\ny\nd');
    expect(applyOrKind('a\nb\r\nd', 'd', 'x\ny')).toBe('a\nb\r\nx\r\ny');
  });

  test('new content for a whole file keeps its line endings, unless it has its own', () => {
    expect(replaceWhole('a\r\nb\r\n', 'x\ny\n')).toBe('x\r\ny\r\n');
    expect(replaceWhole('a\r\nb\n', 'x\ny\n')).toBe('x\ny\n');
    expect(replaceWhole('a\r\nb\r\n', 'x\r\ny\n')).toBe('x\r\ny\n');
    expect(replaceWhole('a\n', 'x\r\n')).toBe('x\r\n');
  });
});

describe('blanks', () => {
  test('blanks before line breaks do not count', () => {
    expect(applyOrKind('a  \nb\t\nc', 'a\nb', 'x')).toBe('x\t\nc');
    expect(applyOrKind('a\nb\nc', 'a  \nb  ', 'x\ny')).toBe('x\ny\nc');
    expect(findStrategy('a  \nb\t\nc', 'a\nb')).toBe('trailing-whitespace');
    expect(applyOrKind('ab c\n', 'ab  ', 'x')).toBe('missing');
  });

  test('a last line without a line break matches and stays without one', () => {
    expect(applyOrKind('a\nlast', 'a\nlast\n', 'a\nfirst\n')).toBe('a\nfirst');
    expect(applyOrKind('a\r\nlast', 'last\n', 'x\ny\n')).toBe('a\r\nx\r\ny');
  });

  test('a text of blanks only never matches by ignoring blanks', () => {
    for (const sought of ['  \n', ' \n \n', '\t', '   '])
      expect(applyOrKind('a\n\nb\n', sought, 'x', true)).toBe('missing');
  });
});

describe('indentation', () => {
  const file = 'class A {\n    run() {\n        one();\n\n        two();\n    }\n}\n';

  test('lines with another common indentation match, and the replacement gets their indentation', () => {
    const less = 'run() {\n    one();\n\n    two();\n}';
    const wanted = 'class A {\n    run() {\n        three();\n    }\n}\n';
    expect(applyOrKind(file, less, 'run() {\n    three();\n}')).toBe(wanted);
    const more = '      run() {\n          one();\n\n          two();\n      }\n';
    expect(applyOrKind(file, more, '      run() {\n          three();\n      }\n')).toBe(wanted);
    expect(applyOrKind('\tif (x)\n\t\ty();\n', '    if (x)\n    \ty();', '    if (z)\n    \ty();')).toBe(
      '\tif (z)\n\t\ty();\n',
    );
    expect(findStrategy(file, less)).toBe('indentation');
  });

  test('lines whose indentations differ unequally do not match', () => {
    expect(applyOrKind(file, 'run() {\n  one();\n\n    two();\n}', 'x')).toBe('missing');
    // The new text has less indentation than would have to be removed.
    expect(applyOrKind('a\n b\n', '    a\n     b', 'c')).toBe('missing');
  });

  test('two matches are ambiguous, whatever their indentation', () => {
    expect(applyEdit('  a\n  b\n    a\n    b\n', { oldText: '\ta\n\tb', newText: '\tc' })).toEqual({
      kind: 'ambiguous',
      lines: [1, 3],
    });
    expect(applyOrKind('  a\n  b\n    a\n    b\n', '\ta\n\tb', '\tc', true)).toBe('  c\n    c\n');
  });

  test('S7: long indentations at a thousand places are compared within limits, and replaced all or not at all', () => {
    const lines = (indent: string, count: number) => `${indent}a\n`.repeat(count);
    const text = lines(' '.repeat(248), 2000);
    expect(applyOrKind(text, `${lines('', 999)} a`, 'b')).toBe('missing');
    expect(applyOrKind(text, lines('', 1000), 'b\n', true)).toBe('missing');
    expect(applyOrKind(text, 'a\na\n', 'b\n', true)).toBe(`${' '.repeat(248)}b\n`.repeat(1000));
  });
});

describe('any text', () => {
  const line = fc.string({
    unit: fc.constantFrom('a', 'b', ' ', '\t', 'é', '😀', '$', '&', '\\', '(', '\u2028'),
    maxLength: 6,
  });
  const lines = fc.array(line, { maxLength: 12 });
  const ending = fc.constantFrom('\n', '\r\n');

  test('a unique part is replaced, and the rest is unchanged', () => {
    fc.assert(
      fc.property(lines, line, lines, lines, ending, (before, mark, after, insert, end) => {
        const unique = `<${mark}>`;
        const text = [...before, unique, ...after].join(end);
        const newText = insert.join('\n');
        const expected = [...before, insert.join(detectLineEnding(text) === 'crlf' ? '\r\n' : '\n'), ...after].join(
          end,
        );
        expect(applyOrKind(text, unique, newText)).toBe(unique === newText ? text : expected);
      }),
      { numRuns: counts(150, 20_000) },
    );
  });

  test('lines given with LF match in files with either line ending', () => {
    fc.assert(
      fc.property(lines, lines, lines, ending, (before, inner, after, end) => {
        const block = ['<<', ...inner, '>>'];
        const text = [...before, ...block, ...after].join(end);
        const outcome = applyEdit(text, { oldText: block.join('\n'), newText: '{\n}' });
        expect(outcome).toMatchObject({ kind: 'applied', lines: [before.length + 1] });
        expect(outcome.kind === 'applied' && outcome.text).toBe([...before, '{', '}', ...after].join(end));
      }),
      { numRuns: counts(150, 20_000) },
    );
  });

  test('replaceAll equals split and join', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 60 });
    const short = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(letters, short, letters, (text, oldText, newText) => {
        const expected = text.includes(oldText) ? text.split(oldText).join(newText) : 'missing';
        expect(applyOrKind(text, oldText, newText, true)).toBe(expected);
      }),
      { numRuns: counts(150, 20_000) },
    );
  });

  test('only the match is changed', () => {
    const text = fc.array(fc.tuple(line, ending), { maxLength: 10 }).map((all) => all.flat().join(''));
    const anything: fc.Arbitrary<TextEdit> = fc.record({ oldText: text, newText: text, replaceAll: fc.boolean() });
    fc.assert(
      fc.property(text, anything, (whole, edit) => {
        const outcome = applyEdit(whole, edit);
        if (outcome.kind !== 'applied') return;
        const kept = (all: string) => [...all].filter((c) => !/\s/.test(c)).join('');
        const without =
          kept(whole).length - outcome.lines.length * (kept(edit.oldText).length - kept(edit.newText).length);
        if (edit.oldText !== '') expect(kept(outcome.text).length).toBe(without);
        if (detectLineEnding(whole) === 'crlf' && !`${edit.oldText}${edit.newText}`.includes('\r'))
          expect(['crlf', 'none']).toContain(detectLineEnding(outcome.text));
      }),
      { numRuns: counts(400, 50_000) },
    );
  });
});

describe('hostile texts', () => {
  const long = 1_200_000;
  // Each of these takes minutes in quadratic time; the time limit of the test would fail.
  test.each([
    ['one letter', 'a'.repeat(long), `${'a'.repeat(long / 2)}b`],
    ['one letter, other first', 'a'.repeat(long), `b${'a'.repeat(long / 2)}`],
    ['one letter, other within', 'a'.repeat(long), `${'a'.repeat(500)}b${'a'.repeat(499)}`],
    ['blanks', `${' '.repeat(long)}x`, `${' '.repeat(long / 2)}y`],
    ['line breaks', '\n'.repeat(long), `${'\n'.repeat(long / 2)}x`],
    ['the same line', 'x();\n'.repeat(long / 5), `${' x();\nx();\n'.repeat(1000)}y`],
    ['the same line, indented otherwise', ' x\n'.repeat(long / 3), `${'\tx\n'.repeat(999)}x\n`],
    ['carriage returns', '\r'.repeat(long), `${'\r'.repeat(long / 2)}\n`],
  ])('%s', (_, text, oldText) => {
    expect(applyOrKind(text, oldText, 'x')).toBe('missing');
  });
});

test('a result over the limit is not built', () => {
  const text = 'a\n'.repeat(100_000);
  const bomb = { oldText: 'a', newText: 'x'.repeat(1_000_000), replaceAll: true };
  expect(applyEdit(text, bomb, 16 * 1024 * 1024)).toEqual({ kind: 'too-large' });
  expect(applyEdit('aaa', { oldText: 'a', newText: '', replaceAll: true }, 1).kind).toBe('applied');
  expect(applyEdit('ab', { oldText: 'a', newText: 'x' }, 2)).toMatchObject({ kind: 'applied', text: 'xb' });
});
