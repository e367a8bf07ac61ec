import { expect, test } from 'vitest';
import { findSpellings, splitQuestion, splitWords } from '../../../src/lib/text/split-words.ts';

test('W1: names of all styles have the same words', () => {
  for (const name of ['maxFileSize', 'MaxFileSize', 'max_file_size', 'MAX_FILE_SIZE'])
    expect(splitWords(name), name).toEqual(['max', 'fil', 'siz', 'maxfilesize']);
  expect(splitWords('parseHTTPServer2')).toEqual(['pars', 'http', 'serv', '2', 'parsehttpserver2']);
  expect(splitWords('größenÄnderung')).toContain('größen');
  expect(splitWords('配置文件')).toEqual(['配置', '置文', '文件']);
  expect(splitQuestion('配置文件在哪里读取'.repeat(10))).toContain('文件');
});

test.each([
  ['parse parses parsed parsing parser parsers', 1],
  ['validate validates validated validating validation validator validators', 1],
  ['run running runner', 1],
  ['copy copies copied', 1],
  ['recursive recursion', 1],
  ['directory directories folder dir', 1],
  ['temporary temp tmp', 1],
  ['class bus this', 3],
  ['supply apply only', 3],
])('W1: the words of "%s" have %i forms', (words, forms) => {
  expect(new Set(splitWords(words)).size).toBe(forms);
});

test('W1: a question is searched without filler words, unless it has no others', () => {
  expect(splitQuestion('Where is the expired token refused?')).toEqual(['expir', 'token', 'refus']);
  expect(splitQuestion('to be or not to be')).not.toEqual([]);
  expect(splitQuestion('?! …')).toEqual([]);
  expect(splitQuestion('word'.repeat(30))).toEqual([]);
  expect(splitQuestion(Array.from({ length: 99 }, (_, n) => `w${n}`).join(' ')).length).toBeLessThanOrEqual(24);
});

test('W1: words of a question are shown as a text has them', () => {
  const terms = splitQuestion('how are expired tokens parsed');
  expect(findSpellings('The TokenParser refuses Expired ones, and expires them.', terms)).toEqual([
    'Expired',
    'TokenParser',
  ]);
});
