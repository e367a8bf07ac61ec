import { expect, test } from 'vitest';
import { findNearestLines } from '../../../src/lib/text/nearest-lines.ts';

const file = ['import a', '', 'function one() {', '  return 1;', '}', '', 'function two() {', '  return 2;', '}'].join(
  '\n',
);

test('finds the place with most equal lines, and its first difference', () => {
  expect(findNearestLines(file, 'function two() {\n  return 3;\n}')).toEqual([
    { line: 8, has: '  return 2;', sought: '  return 3;' },
  ]);
});

test('finds a similar line', () => {
  const [near] = findNearestLines(file, 'functoin one() {');
  expect(near).toMatchObject({ line: 3, has: 'function one() {' });
  expect(findNearestLines(file, 'something else entirely')).toEqual([]);
  expect(findNearestLines('', 'x')).toEqual([]);
  expect(findNearestLines(file, '')).toEqual([]);
});

test('shows only the part of a long line that differs', () => {
  const long = `const list = [${'1, '.repeat(60)}`;
  const [near] = findNearestLines(`x\n${long}2, 3];\n`, `${long}2, 4];`);
  expect(near?.line).toBe(2);
  expect(near?.has).toMatch(/^…[1, ]{15,}2, 3\];$/);
  expect(near?.sought).toMatch(/^…[1, ]{15,}2, 4\];$/);
});

test('takes little time and space for any texts', () => {
  const same = 'the same line\n'.repeat(200_000);
  const found = findNearestLines(same, `the same line\n${'the same line!\n'.repeat(100_000)}`);
  expect(found).toHaveLength(3);
  expect(JSON.stringify(findNearestLines('x'.repeat(5_000_000), 'x'.repeat(4_000_000))).length).toBeLessThan(1000);
});
