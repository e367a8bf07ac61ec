import fc from 'fast-check';
import { expect, test } from 'vitest';
import { splitPassages } from '../../../src/workspaces/codebase/split-passages.ts';
import { counts } from '../../proof.ts';

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
