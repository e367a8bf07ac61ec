import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSeals } from '../../../../src/upstreams/links/relay/seals.ts';
import { counts } from '../../../proof.ts';

const seals = createSeals(Buffer.alloc(32, 7));
const now = 1_800_000_000_000;
const bindings = ['state', 'session', 'server', 'tools/call', 'echo'];
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('', '.', '\ud800'),
);

describe('a seal', () => {
  test('opens for whom it was made, whatever it holds', () => {
    fc.assert(
      fc.property(anyText, fc.array(anyText), fc.option(fc.nat({ max: 1e9 })), (value, owners, life) => {
        const sealed = seals.seal(value, owners, life === null ? undefined : now + life);
        expect(seals.open(sealed, owners, now)).toBe(value);
      }),
      { numRuns: counts(400, 20_000) },
    );
  });

  test('does not open when any one character of it is another', () => {
    const sealed = seals.seal('upstream value', bindings, now + 60_000);
    const alphabet = 'Aa0.-_ \u00e9\ud83d';
    for (let at = 0; at < sealed.length; at++) {
      for (const char of alphabet) {
        if (sealed[at] === char) continue;
        const forged = sealed.slice(0, at) + char + sealed.slice(at + 1);
        expect(seals.open(forged, bindings, now), forged).toBeUndefined();
      }
      expect(seals.open(sealed.slice(0, at), bindings, now)).toBeUndefined();
      expect(seals.open(sealed.slice(0, at) + sealed.slice(at + 1), bindings, now)).toBeUndefined();
      expect(seals.open(`${sealed.slice(0, at)}.${sealed.slice(at)}`, bindings, now)).toBeUndefined();
    }
    expect(seals.open(`${sealed} `, bindings, now)).toBeUndefined();
  });

  test('does not open for any other session, server, method or name', () => {
    const sealed = seals.seal('v', bindings);
    for (const [index, owner] of bindings.entries()) {
      for (const other of ['', `${owner} `, owner.toUpperCase(), 'other']) {
        expect(seals.open(sealed, bindings.with(index, other), now)).toBeUndefined();
      }
      expect(seals.open(sealed, bindings.toSpliced(index, 1), now)).toBeUndefined();
    }
    expect(seals.open(sealed, [...bindings, 'v'], now)).toBeUndefined();
    expect(seals.open(sealed, [], now)).toBeUndefined();
  });

  test('keeps its parts apart: what is shifted from one to the next does not open', () => {
    const parts = fc.array(fc.string({ unit: fc.constantFrom('a', '"', ',', '\\', '.'), maxLength: 4 }), {
      minLength: 2,
      maxLength: 4,
    });
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(seals.open(seals.seal('v', one), other, now)).toBeUndefined();
        const [value, ...owners] = one as [string, ...string[]];
        expect(seals.open(seals.seal(value, owners), [...owners, value], now)).toBeUndefined();
      }),
    );
  });

  test('two values that only differ in half a surrogate pair are two values', () => {
    const sealed = seals.seal('a\ud800', bindings);
    expect(seals.open(sealed.replace('\ud800', '\ud801'), bindings, now)).toBeUndefined();
    expect(seals.open(sealed.replace('\ud800', '\ufffd'), bindings, now)).toBeUndefined();
  });

  test('expires, to the second', () => {
    const sealed = seals.seal('v', bindings, now);
    expect(seals.open(sealed, bindings, now)).toBe('v');
    expect(seals.open(sealed, bindings, now + 1)).toBeUndefined();
    expect(seals.open(seals.seal('v', bindings, now + 60_000), bindings, now + 59_999)).toBe('v');
    expect(seals.open(seals.seal('v', bindings, now + 60_000), bindings, now + 61_000)).toBeUndefined();
  });

  test('without an end cannot be made from one that has an end, nor with a later one', () => {
    const [mac, , value] = seals.seal('v', bindings, now).split('.');
    for (const expiry of ['0', '', '00', 'zzzzzzzz', (now / 1000 + 60).toString(36)]) {
      expect(seals.open(`${mac}.${expiry}.${value}`, bindings, now + 30_000)).toBeUndefined();
    }
  });

  test('of another gateway does not open', () => {
    expect(createSeals().open(createSeals().seal('v', bindings), bindings, now)).toBeUndefined();
    expect(createSeals().open(seals.seal('v', bindings), bindings, now)).toBeUndefined();
  });

  test.each(['', '.', '..', '0.', 'v', '.0.v', 'A'.repeat(22), `${'A'.repeat(22)}.`, `${'A'.repeat(22)}.0`])(
    'is not %j',
    (text) => {
      expect(seals.open(text, bindings, now)).toBeUndefined();
    },
  );
});
