import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isInherited,
  judgePolicies,
  listLevels,
  type Objective,
  type Policy,
  selectObjectives,
  sortForReading,
} from '../../../src/context/for-models/policy.ts';
import { counts } from '../../proof.ts';

const scopes = ['org', 'team:a', 'team:b', 'team:c', 'user:ann', 'user:bob', 'workspace:w', 'workspace:v'];
const policies = fc.uniqueArray(
  fc.record({
    name: fc.constantFrom('p', 'q', 'r'),
    scope: fc.constantFrom(...scopes),
    mode: fc.constantFrom('prepend' as const, 'append' as const),
    text: fc.string({ minLength: 1, maxLength: 5 }),
    locked: fc.boolean(),
    enabled: fc.boolean(),
    order: fc.integer({ min: -2, max: 2 }),
  }),
  { selector: ({ scope, name }) => `${scope}/${name}`, maxLength: 20 },
);
const person = fc.record({
  teams: fc.uniqueArray(fc.constantFrom('a', 'b', 'c')),
  workspaceId: fc.constantFrom(undefined, 'w', 'v'),
});

/** Name by name, said plainly: the locked one that is farthest, else the one that is nearest. */
function plainly(all: readonly Policy[], levels: readonly string[]): Policy[] {
  return [...new Set(all.map(({ name }) => name))].flatMap((name) => {
    const mine = all.filter((each) => each.name === name && each.enabled && levels.includes(each.scope));
    const far = (each: Policy) => levels.indexOf(each.scope);
    const locked = mine.filter((each) => each.locked).sort((a, b) => far(a) - far(b))[0];
    return locked ?? mine.sort((a, b) => far(b) - far(a))[0] ?? [];
  });
}

describe('what somebody is given', () => {
  test('G5: policies are inherited from organisation to team to user, and workspace', () => {
    fc.assert(
      fc.property(policies, person, (all, { teams, workspaceId }) => {
        const levels = listLevels('ann', teams, workspaceId);
        const judged = judgePolicies(all, levels);
        const given = judged.filter(({ outcome }) => outcome === 'given').map(({ policy }) => policy);
        expect(new Set(given)).toEqual(new Set(plainly(all, levels)));
        // All that hold for somebody are told of, each once, and whoever gives way says to whom.
        expect(judged.map(({ policy }) => policy)).toHaveLength(
          all.filter((each) => levels.includes(each.scope)).length,
        );
        for (const { policy, outcome, by } of judged) {
          expect(outcome === 'disabled').toBe(!policy.enabled);
          expect(by === undefined).toBe(outcome === 'given' || outcome === 'disabled');
          if (by !== undefined) expect(given.some((each) => each.scope === by && each.name === policy.name)).toBe(true);
          if (outcome === 'locked out') expect(levels.indexOf(by as string)).toBeLessThan(levels.indexOf(policy.scope));
        }
        const read = sortForReading(given, levels);
        expect(new Set(read)).toEqual(new Set(given));
        const rank = (each: Policy) =>
          (each.mode === 'prepend' ? levels.indexOf(each.scope) : 100 - levels.indexOf(each.scope)) * 100 + each.order;
        for (const [i, each] of read.entries()) {
          const before = read[i - 1];
          if (before !== undefined) expect(rank(before)).toBeLessThanOrEqual(rank(each));
        }
      }),
      { numRuns: counts(300, 5000) },
    );
  });

  test('of several teams the one named first is nearest, and what is locked in any of them holds', () => {
    const one = (scope: string, locked = false): Policy => {
      return { name: 'p', scope, mode: 'prepend', text: scope, locked, enabled: true, order: 0 };
    };
    const levels = listLevels('ann', ['first', 'second'], undefined);
    const given = (all: Policy[]) =>
      judgePolicies(all, levels).flatMap(({ policy, outcome }) => (outcome === 'given' ? [policy.scope] : []));
    expect(given([one('team:first'), one('team:second')])).toEqual(['team:first']);
    expect(given([one('team:first'), one('team:second', true)])).toEqual(['team:second']);
    expect(given([one('team:other'), one('user:bob'), one('workspace:w')])).toEqual([]);
  });

  test('objectives of all levels add up, each once', () => {
    const one = (scope: string, text: string, more: Partial<Objective> = {}): Objective => {
      return { id: text, scope, text, enabled: true, order: 0, ...more };
    };
    const levels = listLevels('ann', ['a'], 'w');
    const all = [
      one('workspace:w', 'last'),
      one('org', 'second', { order: 2 }),
      one('org', 'first', { order: 1 }),
      one('user:ann', 'first'),
      one('user:ann', 'off', { enabled: false }),
      one('user:bob', 'not hers'),
      one('team:a', 'third'),
    ];
    expect(selectObjectives(all, levels).map(({ text }) => text)).toEqual(['first', 'second', 'third', 'last']);
  });

  test('what a user and a workspace have of their own is local', () => {
    expect(scopes.filter(isInherited)).toEqual(['org', 'team:a', 'team:b', 'team:c']);
  });
});
