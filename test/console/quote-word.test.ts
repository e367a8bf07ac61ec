import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { quoteWord } from '../../console/parts/quote-word.ts';

test('a copied word is one word for a shell, and holds no keys', () => {
  const words = [
    ...['plain', '', '#start', '=ls', '~', "it's", '$(id)', '`id`', 'a b', '*', '\\', '{a,b}', 'ä…'],
    ...['\u0003id\r', "\u001b[201~\r'id", 'two\nlines', '\\r\t', '\u0085\u009b1m', '\u007f7'],
  ];
  const quoted = words.map(quoteWord);
  for (const shell of ['sh', 'bash']) {
    const read = execFileSync(shell, ['-c', `printf '%s\\0' ${quoted.join(' ')}`], { encoding: 'utf8' });
    expect([shell, ...read.split('\0').slice(0, -1)]).toEqual([shell, ...words]);
  }
  expect(quoted.filter((each) => /\p{Cc}/u.test(each))).toEqual([]);
  expect(quoteWord('a-b.c/d@e:1')).toBe('a-b.c/d@e:1');
});
