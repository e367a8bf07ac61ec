import { describe, expect, test } from 'vitest';
import { parseExpression } from '../../../src/workspaces/search/expression.ts';

const findMatch = (pattern: string, line: string, caseSensitive = true) =>
  parseExpression(pattern, caseSensitive).find(line);

describe('expressions for lines', () => {
  test.each([
    ['foo', 'a foo', 2],
    ['^foo$', 'foo\r', 0],
    ['\\r$', 'foo\r', 3],
    ['o.$', 'foo\r', 1],
    ['x.y', 'x\ry', -1],
    ['[^a]$', 'ab\r', 1],
    ['\\d+\\s\\w', 'x 12 é', -1],
    ['\\d+\\s\\w', 'x 12 e', 2],
    ['\\bfoo\\b', 'a-foo-b', 2],
    ['(a|b)+c', 'xabc', 1],
    ['(?P<name>a)(?<other>b)', 'ab', 0],
    ['a{2,3}?b', 'aaab', 0],
    ['function \\w+\\(.*{', 'function f(x) {', 0],
    ['x{,3}', 'x{,3}', 0],
    ['a}]', 'a}]', 0],
    ['[[:alpha:]_]+\\[0\\]', 'x[0]', 0],
    ['[]a]', ']', 0],
    ['[a-]', '-', 0],
    ['[&&~~-]', '&', 0],
    ['\\x41\\x{1F600}', 'A😀', 0],
    ['\\p{Greek}', 'aλ', 1],
    ['\\PL', 'λ1', 1],
    ['(?i)FOO', 'foo', 0],
    ['(?i:F)oo', 'fOO', -1],
    ['\\/\\-\\#\\ ', '/-# ', 0],
    ['é+', 'xéé', 1],
    ['\\v\\f\\t\\a', '\v\f\t\u0007', 0],
    ['a||b', 'x', 0],
  ])('%s in %j begins at %i', (pattern, line, at) => {
    expect(findMatch(pattern, line)).toBe(at);
  });

  test('case sensitivity is an option', () => {
    expect(findMatch('ÉTÉ', 'été')).toBe(-1);
    expect(findMatch('ÉTÉ', 'été', false)).toBe(0);
    expect(findMatch('a|B', 'xb', false)).toBe(1);
  });

  test.each([
    ['a\\nb', 'at character 2', 'line break'],
    ['a\nb', 'at character 2', 'line break'],
    ['a(?=b)', 'at character 2', 'lookahead and lookbehind'],
    ['(?<!a)b', 'at character 1', 'lookahead and lookbehind'],
    ['(a)\\1', 'at character 4', 'backreferences'],
    ['a**', 'at character 3', 'repetition is repeated'],
    ['a{2}{3}', 'at character 5', 'repetition is repeated'],
    ['*a', 'at character 1', 'nothing to repeat before "*"'],
    ['^*', 'at character 1', 'nothing to repeat'],
    ['a{3,2}', 'at character 2', 'lesser number first'],
    ['a{1001}', 'at character 2', '1000'],
    ['((a{100}){100}){100}', 'at character', 'too many repetitions'],
    ['(a', 'at character 1', 'no ")"'],
    ['a)', 'at character 2', 'no "("'],
    ['[a', 'at character 1', 'no "]"'],
    ['[z-a]', 'at character 2', 'range'],
    ['[[:nope:]]', 'at character 2', 'no class'],
    ['\\q', 'at character 1', 'unknown escape'],
    ['\\A', 'at character 1', 'use "^"'],
    ['\\x{110000}', 'at character 1', 'number of a character'],
    ['(?x) a', 'at character 1', 'kind of group'],
    ['a\ud800', 'at character 2', 'half a character'],
    ['a\\', 'at character 2', 'unknown escape'],
    ['\\p{Nonsense}', 'is not valid', 'invalid'],
    ['('.repeat(200), 'at character', 'nested too deeply'],
  ])('%j is refused, %s: %s', (pattern, where, why) => {
    expect(() => parseExpression(pattern, true)).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }));
    expect(() => parseExpression(pattern, true)).toThrow(where);
    expect(() => parseExpression(pattern, true)).toThrow(why);
  });

  test('patterns with exponential backtracking elsewhere are fast', () => {
    const line = `${'a'.repeat(30_000)}!`;
    for (const pattern of ['(a+)+$', '(a|aa)+$', '(.*a){20}$', '(a*)*b', '(x+x+)+y', '([a-z]+)*=', 'a?'.repeat(200)]) {
      expect(findMatch(pattern, line), pattern).toBeLessThan(30_001);
    }
  });
});
