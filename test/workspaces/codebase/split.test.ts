import fc from 'fast-check';
import { expect, test } from 'vitest';
import { splitPassages } from '../../../src/workspaces/codebase/split-passages.ts';
import { splitQuestion, splitWords } from '../../../src/workspaces/codebase/split-words.ts';
import { counts } from '../../proof.ts';

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

test('W1: a definition and its comment are one passage, which knows its names', () => {
  const text = [
    '/** Reads the settings. */',
    'export function readSettings(path) {',
    '  const text = load(path);',
    '',
    '  return parse(text);',
    '}',
    '',
    'class Cache {',
    '  clear() {',
    '    this.entries = [];',
    '  }',
    '}',
  ].join('\n');
  expect(splitPassages(text).map(({ startLine, endLine, names }) => [startLine, endLine, ...names])).toEqual([
    [1, 7, 'readSettings'],
    [8, 12, 'Cache', 'clear'],
  ]);
});

test('W1: a part of a long definition knows the definition', () => {
  const body = Array.from({ length: 200 }, (_, n) => `    step(${n})`);
  const passages = splitPassages(['def migrate_all():', ...body].join('\n'));
  expect(passages.length).toBeGreaterThan(3);
  expect(passages.slice(1).map(({ scope }) => scope)).toEqual(passages.slice(1).map(() => 'migrate_all'));
});

test('W1: every line that is not blank is in exactly one passage', () => {
  const line = fc.oneof(
    fc.constantFrom('', '  ', '}', 'function a() {', '  b();', '# Title', "test('x', () => {"),
    fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll('\n', ' ')),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 60 }), (lines) => {
      const seen = splitPassages(lines.join('\n')).flatMap(({ startLine, endLine }) =>
        Array.from({ length: endLine - startLine + 1 }, (_, n) => startLine + n),
      );
      const distinct = new Set(seen);
      expect(distinct.size).toBe(seen.length);
      const missing = lines.flatMap((each, at) => (each.trim() === '' || distinct.has(at + 1) ? [] : [at + 1]));
      expect(missing).toEqual([]);
    }),
    { numRuns: counts(30, 1000) },
  );
});
