import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type PartitionFacts, partitionOf, type Sharing } from '../../../src/gateway/cache/call-digest.ts';
import { counts } from '../../proof.ts';

const session: fc.Arbitrary<PartitionFacts> = fc.record({
  id: fc.constantFrom('s1', 's2', 's3'),
  userId: fc.constantFrom('ada', 'eve', '', 's1', 'w1'),
  workspaceId: fc.constantFrom(undefined, 'w1', 'w2', 'ada'),
  trustLevel: fc.constantFrom('direct', 'sandboxed'),
  permissions: fc.constantFrom<string[][]>([], ['a'], ['b'], ['a', 'b'], ['b', 'a'], ['a,b'], ['a', 'a']),
});
const pers = fc.constantFrom<Sharing[]>('session', 'user', 'workspace');
const personal = fc.constantFrom('', 'ada 1', 'eve 1');

describe('L7: who shares a result', () => {
  test('only those of equal trust, permissions and workspace, and of the one thing that was chosen', () => {
    const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
    const held = ({ permissions }: PartitionFacts) => [...new Set(permissions)].sort();
    fc.assert(
      fc.property(pers, session, session, personal, personal, (per, a, b, x, y) => {
        const [one, two] = [partitionOf(per, a, x), partitionOf(per, b, y)];
        const alone = per === 'session' || (per === 'workspace' && a.workspaceId === undefined);
        const may =
          a.workspaceId === b.workspaceId &&
          a.trustLevel === b.trustLevel &&
          same(held(a), held(b)) &&
          x === y &&
          (alone ? a.id === b.id : per === 'user' || x !== '' ? a.userId === b.userId : true);
        expect(one.name === two.name).toBe(may);
        if (one.owner !== undefined) expect(one.owner).toBe(a.id);
        expect(one.owner !== undefined).toBe(alone);
        if (may && a.userId !== b.userId && !alone) expect(one.severalUsers).toBe(true);
      }),
      { numRuns: counts(2000, 200_000) },
    );
  });

  test('partitions of different kinds never meet', () => {
    fc.assert(
      fc.property(session, session, personal, (a, b, x) => {
        const names = new Set((['session', 'user', 'workspace'] as const).map((per) => partitionOf(per, a, x).name));
        expect(names.size).toBe(a.workspaceId === undefined ? 2 : 3);
        expect(partitionOf('user', a, x).name).not.toBe(partitionOf('session', b, x).name);
      }),
    );
  });
});
