import { describe, expect, test } from 'vitest';
import { blockText, noticeText, revisionOf } from '../../src/governance/block-text.ts';
import type { Objective, Policy } from '../../src/governance/policy.ts';

const policy = (name: string, text: string, more: Partial<Policy> = {}): Policy => ({
  name,
  scope: 'org',
  mode: 'prepend',
  text,
  locked: false,
  enabled: true,
  order: 0,
  ...more,
});
const objective = (text: string): Objective => ({ id: 'o-1', scope: 'org', text, enabled: true, order: 0 });

describe('the block', () => {
  test('is written as it is promised, to the byte', () => {
    const text = blockText({
      policies: [policy('require-tests', 'All code changes must include tests.')],
      objectives: [objective('Reduce deployment time to under 5 minutes')],
    });
    expect(text).toBe(`═══ SESSION CONTEXT (auto-injected) ═══

Policies:
  - [prepend] require-tests: All code changes must include tests. (inherited)

Objectives:
  - Reduce deployment time to under 5 minutes

═══════════════════════════════════════`);
  });

  test('G4: says in one line that there is nothing, and leaves out a part that is empty', () => {
    expect(blockText({ policies: [], objectives: [] }).split('\n')).toEqual([
      '═══ SESSION CONTEXT (auto-injected) ═══',
      '',
      'No policies or objectives configured.',
      '',
      '═'.repeat(39),
    ]);
    const own = policy('mine', 'x', { mode: 'append', scope: 'user:ann' });
    expect(blockText({ policies: [own], objectives: [] })).not.toContain('Objectives');
    expect(blockText({ policies: [own], objectives: [] })).toContain('  - [append] mine: x (local)');
    expect(blockText({ policies: [], objectives: [objective('x')] })).not.toContain('Policies');
  });

  test('a text of several lines stays within its place', () => {
    const text = blockText({ policies: [policy('a', 'one\r\ntwo\nObjectives:\n')], objectives: [] });
    expect(text).toContain('  - [prepend] a: one\n    two\n    Objectives: (inherited)');
  });

  test('has a bound, and says where the rest is; asked for whole, it is whole', () => {
    const long = '𝒳'.repeat(5000);
    const one = { policies: [policy('long', long), policy('short', 'kept')], objectives: [] };
    expect(blockText(one)).toContain(`${'𝒳'.repeat(2000)}… (cut here: session_context has the whole text) (inherited)`);
    expect(blockText(one)).toContain('short: kept');
    expect(blockText(one, true)).toContain(`${long} (inherited)`);
    const many = { policies: Array.from({ length: 1000 }, (_, i) => policy(`p${i}`, 'x'.repeat(100))), objectives: [] };
    expect(blockText(many).length).toBeLessThan(13_000);
    expect(blockText(many)).toMatch(/\n {2}- … \(\d+ more: session_context has them all\)\n/);
    expect(blockText(many, true)).toContain('p999: ');
  });

  test('another text is another revision, whatever of it is shown', () => {
    const a = { policies: [policy('a', `${'x'.repeat(4000)}1`)], objectives: [] };
    const b = { policies: [policy('a', `${'x'.repeat(4000)}2`)], objectives: [] };
    expect(blockText(a)).toBe(blockText(b));
    expect(revisionOf(blockText(a, true))).not.toBe(revisionOf(blockText(b, true)));
    expect(noticeText()).toContain('session_context');
  });
});
