import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findOccurrences, findSequence } from '../../../src/lib/text/find-text.ts';
import { counts } from '../../proof.ts';

const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 80 });

function findSimply(text: string, run: string): number[] {
  return Array.from(text, (_, i) => i).filter((i) => text.startsWith(run, i));
}

test('finds all occurrences, also overlapping ones', () => {
  fc.assert(
    fc.property(letters, letters, (text, run) => {
      fc.pre(run !== '');
      const codes = (all: string) => Array.from(all, (letter) => letter.charCodeAt(0));
      expect(findSequence(codes(text), codes(run), Number.POSITIVE_INFINITY)).toEqual(findSimply(text, run));
      expect(findOccurrences(text, run, Number.POSITIVE_INFINITY)).toEqual(findSimply(text, run));
    }),
    { numRuns: counts(150, 20_000) },
  );
});

test('finds long sequences like short ones', () => {
  const run = `${'ab'.repeat(5000)}é`;
  const text = `😀${'ab'.repeat(20_000)}é${run}`;
  expect(findOccurrences(text, run, 10)).toEqual([text.indexOf(run), text.length - run.length]);
  expect(findOccurrences(text, run, 1)).toHaveLength(1);
});
