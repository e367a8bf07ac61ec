import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPseudonyms, type PseudonymKind } from '../../../src/context/for-tools/pseudonyms.ts';

const secret = randomBytes(32);
const pseudonyms = createPseudonyms(secret);
const kinds: PseudonymKind[] = ['user', 'session', 'agent', 'workspace', 'call'];
const kind = fc.constantFrom(...kinds);

test('P12: a pseudonym is stable, and nobody else with another secret makes the same', () => {
  fc.assert(
    fc.property(kind, fc.string(), fc.string(), (what, audience, value) => {
      const made = pseudonyms.of(what, audience, value);
      expect(createPseudonyms(Buffer.from(secret)).of(what, audience, value)).toBe(made);
      expect(createPseudonyms(randomBytes(32)).of(what, audience, value)).not.toBe(made);
      expect(made).toMatch(/^(?:user|session|agent|workspace|call)-[0-9a-f]{32}$/);
    }),
  );
});

test('P12: one value has another name at every server and in every role, whatever its parts are made of', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(kind, fc.string(), fc.string()), {
        minLength: 2,
        maxLength: 8,
        selector: (parts) => JSON.stringify(parts),
      }),
      (all) => {
        const made = all.map(([what, audience, value]) => pseudonyms.of(what, audience, value).replace(/^\w+-/, ''));
        expect(new Set(made).size).toBe(all.length);
      },
    ),
  );
  // Parts that run into each other stay apart.
  expect(pseudonyms.of('user', 'ab', 'c')).not.toBe(pseudonyms.of('user', 'a', 'bc'));
  expect(pseudonyms.of('user', 'a","b', 'c')).not.toBe(pseudonyms.of('user', 'a', 'b","c'));
});

test('P12: two servers that compare their names find nothing in common, and nothing of the value', () => {
  const pieces = (text: string) => new Set(Array.from({ length: text.length - 11 }, (_, i) => text.slice(i, i + 12)));
  for (const what of kinds) {
    const values = Array.from({ length: 50 }, (_, i) => `zoe-${i}`);
    const here = values.map((value) => pseudonyms.of(what, 'https://one.example/mcp', value).slice(what.length + 1));
    const there = values.map((value) => pseudonyms.of(what, 'https://two.example/mcp', value).slice(what.length + 1));
    const seen = new Set(here.flatMap((name) => [...pieces(name)]));
    for (const name of there) for (const piece of pieces(name)) expect(seen.has(piece)).toBe(false);
    expect(`${here}${there}`).not.toContain('zoe');
  }
});
