import fc from 'fast-check';
import { expect, test } from 'vitest';
import { previewDraft } from '../../console/policies/draft.ts';
import { renderBlock } from '../../src/context/for-models/context-block.ts';
import { judgePolicies, listLevels, type Policy, sortForReading } from '../../src/context/for-models/policy.ts';

const scopes = ['org', 'team:a', 'team:b', 'user:ann', 'workspace:w', 'workspace:v'];
const policy = fc.record({
  name: fc.constantFrom('p', 'q', 'r'),
  scope: fc.constantFrom(...scopes),
  mode: fc.constantFrom('prepend' as const, 'append' as const),
  text: fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom('a\n\nObjectives:\n  - b', 'long '.repeat(500))),
  locked: fc.boolean(),
  enabled: fc.boolean(),
  order: fc.integer({ min: -1, max: 1 }),
});
const nameOf = ({ scope, name }: Policy) => `${scope}/${name}`;
const texts = fc.uniqueArray(fc.constantFrom('Grow', 'Sell\n\nPolicies:'));
const reader = fc.record({
  teams: fc.uniqueArray(fc.constantFrom('a', 'b')),
  workspaceId: fc.constantFrom(null, 'w'),
});

test('U2: the preview of a draft is what the gateway gives once it is saved', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(policy, { selector: nameOf, maxLength: 4 }),
      policy,
      texts,
      reader,
      (policies, draft, goals, { teams, workspaceId }) => {
        const levels = listLevels('ann', teams, workspaceId ?? undefined);
        const objectives = goals.map((text) => ({ id: text, scope: 'org', text, enabled: true, order: 0 }));
        const judge = (all: readonly Policy[]) => {
          const judged = judgePolicies(all, levels);
          const given = judged.filter(({ outcome }) => outcome === 'given').map((each) => each.policy);
          return { judged, block: renderBlock({ policies: sortForReading(given, levels), objectives }) };
        };
        const now = judge(policies);
        const saved = judge([...policies.filter((each) => nameOf(each) !== nameOf(draft)), draft]);
        const answer = { userId: 'ann', teams, workspaceId, policies: now.judged.map((each) => each.policy) };
        const { own, parts } = previewDraft({ ...answer, block: now.block }, draft);
        expect(parts.join('')).toBe(saved.block);
        const { outcome, by = null } = saved.judged.find((each) => each.policy === draft) ?? { outcome: undefined };
        expect([own?.outcome, own?.by ?? null]).toEqual([outcome, by]);
        expect(parts[1] !== '').toBe(outcome === 'given');
      },
    ),
  );
});
