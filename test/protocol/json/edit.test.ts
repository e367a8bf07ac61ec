import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyEdits, type Edit, removeMembers, replaceValue } from '../../../src/protocol/json/edit.ts';
import { type ObjectShape, readRawValue, scanObject } from '../../../src/protocol/json/scan.ts';
import { counts } from '../../proof.ts';
import { objectText, valueText, type WrittenMember } from './json-texts.ts';

const numRuns = counts(600, 50_000);
const plans = fc.array(
  fc.oneof(fc.constant({ kind: 'keep' } as const), fc.constant({ kind: 'drop' } as const), valueText),
  {
    minLength: 6,
    maxLength: 6,
  },
);

function listSpans(bytes: Buffer, shape: ObjectShape): string[] {
  return shape.members.map(({ keyStart, end }) => bytes.toString('utf8', keyStart, end));
}

describe('removeMembers and applyEdits', () => {
  test('agree with a simple model, and change no other byte', () => {
    fc.assert(
      fc.property(objectText, plans, ({ text, members }, plan) => {
        const bytes = Buffer.from(text);
        const shape = scanObject(bytes);
        const fate = (index: number) => plan[index] as (typeof plan)[number];
        const edits: Edit[] = removeMembers(shape, (member) => {
          const chosen = fate(shape.members.indexOf(member));
          return typeof chosen !== 'string' && chosen.kind === 'drop';
        });
        const model: WrittenMember[] = [];
        const untouched: string[] = [];
        for (const [index, member] of shape.members.entries()) {
          const chosen = fate(index);
          const { key, value } = members[index] as WrittenMember;
          if (typeof chosen === 'string') {
            edits.push(replaceValue(member, chosen));
            model.push({ key, value: chosen });
          } else if (chosen.kind === 'keep') {
            model.push({ key, value });
            untouched.push(bytes.toString('utf8', member.keyStart, member.end));
          }
        }

        const changed = applyEdits(bytes, edits);

        const after = scanObject(changed);
        expect(after.members.map(({ key }) => key)).toEqual(model.map(({ key }) => JSON.parse(key)));
        expect(after.members.map((member) => readRawValue(changed, member))).toEqual(model.map(({ value }) => value));
        expect(
          listSpans(changed, after).filter((_, index) => typeof fate(findKeptIndex(plan, index)) !== 'string'),
        ).toEqual(untouched);
        expect(changed.toString('utf8', 0, after.start)).toBe(text.slice(0, text.indexOf('{')));
        expect(changed.subarray(after.end).equals(bytes.subarray(shape.end))).toBe(true);
        JSON.parse(changed.toString());
      }),
      { numRuns },
    );
  });

  test('no edits return the same buffer', () => {
    const bytes = Buffer.from('{"a":1}');
    expect(
      applyEdits(
        bytes,
        removeMembers(scanObject(bytes), () => false),
      ),
    ).toBe(bytes);
  });

  test.each([
    ['{"a":1}', ['a'], '{}'],
    ['{ "a" : 1 }', ['a'], '{  }'],
    ['{"a":1,"b":2}', ['a'], '{"b":2}'],
    ['{"a":1,"b":2}', ['b'], '{"a":1}'],
    ['{"a":1,"b":2,"c":3}', ['a', 'b'], '{"c":3}'],
    ['{"a":1,"b":2,"c":3}', ['b', 'c'], '{"a":1}'],
    ['{"a":1,"b":2,"c":3}', ['a', 'c'], '{"b":2}'],
    ['{"a":1 , "b":2 , "c":3 }', ['b'], '{"a":1 , "c":3 }'],
    ['{"a":1,"a":2}', ['a'], '{}'],
    ['{"\\u0061":1,"b":2}', ['a'], '{"b":2}'],
  ])('%s without %j is %s', (text, keys, expected) => {
    const bytes = Buffer.from(text);
    const edits = removeMembers(scanObject(bytes), ({ key }) => keys.includes(key));
    expect(applyEdits(bytes, edits).toString()).toBe(expected);
  });
});

describe('applyEdits', () => {
  test('applies edits in any order', () => {
    const cuts = fc
      .uniqueArray(fc.nat(40), { minLength: 0, maxLength: 8 })
      .map((places) => places.sort((a, b) => a - b));
    const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 3 }), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(cuts, texts, fc.boolean(), (places, words, backwards) => {
        const text = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP';
        const edits: Edit[] = [];
        for (let i = 0; i + 1 < places.length; i += 2) {
          edits.push({ start: places[i]!, end: places[i + 1]!, text: words[(i / 2) % 4]! });
        }
        let model = text;
        for (const { start, end, text: word } of [...edits].reverse()) {
          model = model.slice(0, start) + word + model.slice(end);
        }
        if (backwards) edits.reverse();
        expect(applyEdits(Buffer.from(text), edits).toString()).toBe(model);
      }),
      { numRuns },
    );
  });

  test('edits may touch, but not overlap', () => {
    const bytes = Buffer.from('abcdef');
    const touching = [
      { start: 2, end: 4, text: 'X' },
      { start: 0, end: 2, text: 'é' },
      { start: 6, end: 6, text: '\n' },
    ];
    expect(applyEdits(bytes, touching).toString()).toBe('éXef\n');
    expect(() => applyEdits(bytes, [...touching, { start: 3, end: 5, text: '' }])).toThrow(/overlap/);
  });
});

function findKeptIndex(plan: readonly (string | { readonly kind: 'keep' | 'drop' })[], index: number): number {
  let seen = -1;
  for (const [at, chosen] of plan.entries()) {
    if (typeof chosen === 'string' || chosen.kind === 'keep') seen++;
    if (seen === index) return at;
  }
  return plan.length;
}
