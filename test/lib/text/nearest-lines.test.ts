import { expect, test } from 'vitest';
import { findNearestLines } from '../../../src/lib/text/nearest-lines.ts';

const file = ['import a', '', 'function one() {', '  return 1;', '}', '', 'function two() {', '  return 2;', '}'].join(
  '\n',
);

test('finds the place with most equal lines, and shows it from before its first difference', () => {
  expect(findNearestLines(file, 'function two() {\n  return 3;\n}')).toEqual({
    isComplete: true,
    lines: [
      { line: 7, has: 'function two() {', sought: 'function two() {' },
      { line: 8, has: '  return 2;', sought: '  return 3;' },
      { line: 9, has: '}', sought: '}' },
    ],
  });
});

test('finds a similar line', () => {
  expect(findNearestLines(file, 'functoin one() {').lines[0]).toMatchObject({ line: 3, has: 'function one() {' });
  for (const [text, sought] of [
    [file, 'something else entirely'],
    ['', 'x'],
    [file, ''],
  ] as const)
    expect(findNearestLines(text, sought)).toEqual({ lines: [], isComplete: true });
});

test('shows only the part of a long line that differs', () => {
  const long = `const list = [${'1, '.repeat(60)}`;
  const [near] = findNearestLines(`x\n${long}2, 3];\n`, `${long}2, 4];`).lines;
  expect(near?.line).toBe(2);
  expect(near?.has).toMatch(/^…[1, ]{15,}2, 3\];$/);
  expect(near?.sought).toMatch(/^…[1, ]{15,}2, 4\];$/);
});

test.each([
  ['tabs for spaces', 'if (x) {\n\treturn 1;\n}', 'if (x) {\n  return 1;\n}', 2, 1, '\t', '  '],
  ['spaces for a tab', '    a = 1', '\ta = 1', 1, 1, '    ', '\t'],
  ['within a line', 'foo(a, b);', 'foo(a,b)', 1, 7, ' ', ''],
  ['in a part of a line', 'const a = b + c;', 'b+ c', 1, 12, ' ', ''],
  ['a no-break space', 'a\u00a0= 1', 'a = 1', 1, 2, '\u00a0', ' '],
  ['a no-break space in front', '\u00a0\u00a0return x', '  return x', 1, 1, '\u00a0\u00a0', '  '],
  ['a zero width space', 'foo\u200b(bar)', 'foo(bar)', 1, 4, '\u200b', ''],
  ['at the end of a line', 'one  \ntwo', 'one\ntwo', 1, 4, '  ', ''],
  ['at the end of the text', 'one two', 'one two\t', 1, 8, '', '\t'],
  ['a carriage return within a line', 'a\rb', 'a b', 1, 2, '\r', ' '],
])('tells that only whitespace differs: %s', (_, text, sought, line, column, has, other) => {
  const differing = findNearestLines(text, sought).lines.filter((each) => each.whitespace !== undefined);
  expect(differing).toEqual([expect.objectContaining({ line, whitespace: { column, has, sought: other } })]);
});

test('line endings are no difference, and other differences are not called whitespace', () => {
  const [first, second] = findNearestLines('first\r\nsecond\r\n', 'first\nthird\n').lines;
  expect(first).toEqual({ line: 1, has: 'first', sought: 'first' });
  expect(second).toEqual({ line: 2, has: 'second', sought: 'third' });
  expect(findNearestLines('value  = 1', 'value = 2').lines).toEqual([
    { line: 1, has: 'value  = 1', sought: 'value = 2' },
  ]);
});

test('finds lines far into a long file', () => {
  const long = `${'const value = compute(something);\n'.repeat(300_000)}let\tsought = 1;\n`;
  expect(findNearestLines(long, 'let sought = 1;')).toMatchObject({
    isComplete: true,
    lines: [{ line: 300_001, whitespace: { has: '\t', sought: ' ' } }],
  });
});

test('takes little time and space for any texts', () => {
  const same = 'the same line\n'.repeat(300_000);
  const found = findNearestLines(same, `the same line\n${'the same line!\n'.repeat(100_000)}`);
  expect(found.lines.length).toBeLessThanOrEqual(7);
  expect(found.isComplete).toBe(false);
  const long = findNearestLines('x'.repeat(5_000_000), 'x'.repeat(4_000_000));
  expect(JSON.stringify(long).length).toBeLessThan(1000);
  for (const text of [' ', '\n', '\u00a0', 'ab\n', 'a '])
    expect(findNearestLines(text.repeat(1_000_000 / text.length), 'a bc d').lines.length).toBeLessThanOrEqual(7);
});
