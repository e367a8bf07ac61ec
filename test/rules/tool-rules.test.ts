import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SessionClaims } from '../../src/rules/session-base.ts';
import { compileToolPattern } from '../../src/rules/tool-pattern.ts';
import type { RuleText } from '../../src/rules/tool-rules.ts';
import { counts } from '../proof.ts';
import { createArgumentsReader, createTestRules, failOnRead, someone } from './rules.ts';

type Args = Readonly<Record<string, unknown>>;
/** A condition as text, and the same as a function; undefined is an error. */
interface Said {
  readonly when: string | undefined;
  readonly readsArgs: boolean;
  plain(session: SessionClaims, tool: string, args: Args): boolean | undefined;
}

const vocabulary: readonly Said[] = [
  { when: undefined, readsArgs: false, plain: () => true },
  { when: `session.trustLevel == 'direct'`, readsArgs: false, plain: (session) => session.trustLevel === 'direct' },
  { when: `'p' in session.permissions`, readsArgs: false, plain: (session) => session.permissions.includes('p') },
  { when: `tool.startsWith('w')`, readsArgs: false, plain: (_, tool) => tool.startsWith('w') },
  {
    when: `session.permissions[1] == 'p'`,
    readsArgs: false,
    plain: ({ permissions: [, b] }) => (b === undefined ? undefined : b === 'p'),
  },
  { when: 'has(args.n)', readsArgs: true, plain: (_, __, args) => 'n' in args },
  { when: 'args.n > 3', readsArgs: true, plain: (_, __, { n }) => (typeof n === 'number' ? n > 3 : undefined) },
  {
    when: `args.s.contains('x') && session.trustLevel == 'sandboxed'`,
    readsArgs: true,
    plain: ({ trustLevel }, _, { s }) =>
      trustLevel !== 'sandboxed' ? false : typeof s === 'string' ? s.includes('x') : undefined,
  },
];

const pattern = fc
  .array(fc.constantFrom('*', '?', 'w', 'r', '_', 'notes__', 'notes__w'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join(''));
const rule = fc.record({
  effect: fc.constantFrom('allow' as const, 'deny' as const),
  patterns: fc.array(pattern, { minLength: 1, maxLength: 2 }),
  said: fc.constantFrom(...vocabulary),
});
const tools = fc.record({
  allow: fc.array(pattern, { maxLength: 2 }).map((list) => (list.length === 0 ? ['*'] : list)),
  deny: fc.array(pattern, { maxLength: 1 }),
  permissions: fc.dictionary(pattern, fc.constantFrom('p', 'q'), { maxKeys: 2 }),
});
const session = fc.record({
  trustLevel: fc.constantFrom('direct' as const, 'sandboxed' as const),
  permissions: fc.constantFrom<string[]>([], ['p'], ['p', 'p2'], ['q', 'p']),
});
const tool = fc.constantFrom('w', 'r', 'w_r', 'notes__w', '', 'ww');
const args = fc.record(
  { n: fc.constantFrom<unknown>(1, 5, 4.5, 'x', null), s: fc.constantFrom<unknown>('ax', 'b', 7) },
  { requiredKeys: [] },
);

const matchesSimply = (text: string, name: string) =>
  new RegExp(`^${text.replaceAll('*', '[^]*').replaceAll('?', '[^]')}$`).test(name);

test('P7: every decision equals that of a simple evaluator, and a hidden tool is never allowed', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 5 }), tools, session, tool, args, (rules, filters, held, name, given) => {
      const claims = { ...someone, ...held };
      const texts = rules.map(
        ({ effect, patterns, said: { when } }, i): RuleText => ({ id: `r${i}`, [effect]: patterns, when }),
      );
      const named = rules
        .map((each, i) => ({ ...each, id: `r${i}` }))
        .filter(({ patterns }) => patterns.some((each) => matchesSimply(each, `notes__${name}`)));
      const passes =
        filters.allow.some((each) => matchesSimply(each, name)) &&
        !filters.deny.some((each) => matchesSimply(each, name)) &&
        Object.entries(filters.permissions).every(
          ([each, p]) => !matchesSimply(each, name) || held.permissions.includes(p),
        );
      const verdicts = named.map((each) => ({ ...each, verdict: each.said.plain(claims, name, given) }));
      const allows = verdicts.filter(({ effect }) => effect === 'allow');
      const allowed =
        passes &&
        verdicts.every(({ verdict }) => verdict !== undefined) &&
        !verdicts.some(({ effect, verdict }) => effect === 'deny' && verdict) &&
        (allows.length === 0 || allows.some(({ verdict }) => verdict));

      const bounds = createTestRules(texts, filters).for('notes');
      if (bounds === undefined) {
        expect(named).toEqual([]);
        expect(allowed).toBe(true);
        return;
      }
      const reads = named.some(({ said }) => said.readsArgs);
      const decision = bounds.decide(claims, name, reads ? createArgumentsReader(JSON.stringify(given)) : failOnRead);
      expect(decision.allowed).toBe(allowed);
      if (decision.allowed) expect(bounds.mayAllow(claims, name)).toBe(true);
      if (!reads) expect(bounds.mayAllow(claims, name)).toBe(allowed);
      const ids = named.map(({ id }) => id);
      expect([
        'default',
        'servers.notes.tools.deny',
        'servers.notes.tools.allow',
        'servers.notes.tools.permissions',
        ...ids,
      ]).toContain(decision.rule);
      if (!allowed && passes) expect(ids).toContain(decision.rule);
    }),
    { numRuns: counts(600, 50_000) },
  );
});

describe('deny wins over allow', () => {
  const decide = (rules: readonly RuleText[], filters = {}) => {
    const bounds = createTestRules(rules, filters).for('notes');
    return { rule: bounds?.decide(someone, 'write', failOnRead).rule, shown: bounds?.mayAllow(someone, 'write') };
  };
  const allow: RuleText = { id: 'allow-write', allow: ['notes__write'] };
  const deny: RuleText = { id: 'deny-notes', deny: ['notes__*'] };

  test('among rules, in any order', () => {
    expect(decide([allow])).toEqual({ rule: 'allow-write', shown: true });
    expect(decide([allow, deny])).toEqual({ rule: 'deny-notes', shown: false });
    expect(decide([deny, allow])).toEqual({ rule: 'deny-notes', shown: false });
  });

  test('among the lists of a server, even if "allow" names the tool exactly', () => {
    expect(decide([allow], { allow: ['write'], deny: ['read'] })).toEqual({ rule: 'allow-write', shown: true });
    expect(decide([allow], { allow: ['write'], deny: ['w*'] })).toEqual({
      rule: 'servers.notes.tools.deny',
      shown: false,
    });
  });
});

test('the order of rules does not matter', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 5 }), session, tool, args, (rules, held, name, given) => {
      const claims = { ...someone, ...held };
      const texts = rules.map(
        ({ effect, patterns, said }, i): RuleText => ({ id: `r${i}`, [effect]: patterns, when: said.when }),
      );
      const asked = (list: readonly RuleText[]) => {
        const bounds = createTestRules(list).for('notes');
        return [
          bounds?.decide(claims, name, createArgumentsReader(JSON.stringify(given))).allowed,
          bounds?.mayAllow(claims, name),
        ];
      };
      expect(asked(texts.toReversed())).toEqual(asked(texts));
    }),
    { numRuns: counts(300, 10_000) },
  );
});

test('equal keys mean that the same tools are shown', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 3 }), tools, session, session, tool, (rules, filters, one, other, name) => {
      const texts = rules.map(
        ({ effect, patterns, said }, i): RuleText => ({ id: `r${i}`, [effect]: patterns, when: said.when }),
      );
      const bounds = createTestRules(texts, filters).for('notes');
      const [a, b] = [
        { ...someone, ...one },
        { ...someone, ...other },
      ];
      if (bounds !== undefined && bounds.visibleToolsKey(a) === bounds.visibleToolsKey(b))
        expect(bounds.mayAllow(a, name)).toBe(bounds.mayAllow(b, name));
    }),
    { numRuns: counts(400, 20_000) },
  );
});

describe('each refusal names its rule and reason', () => {
  const decide = (rules: readonly RuleText[], filters = {}, args = '{}') =>
    createTestRules(rules, filters).for('notes')?.decide(someone, 'write', createArgumentsReader(args));

  test.each([
    [[], { deny: ['wr*'] }, 'servers.notes.tools.deny', /"wr\*" in servers.notes.tools.deny/, ['tool']],
    [[], { allow: ['read'] }, 'servers.notes.tools.allow', /is not in servers/, ['tool']],
    [
      [],
      { permissions: { '*': 'notes:write' } },
      'servers.notes.tools.permissions',
      /"notes:write"/,
      ['session.permissions', 'tool'],
    ],
    [[{ id: 'no', deny: ['*__write'] }], {}, 'no', /"no" denies/, ['tool']],
    [
      [{ id: 'if', allow: ['notes__*'], when: `session.userId == 'bob'` }],
      {},
      'if',
      /only "if" could allow/,
      ['session.userId', 'tool'],
    ],
    [
      [{ id: 'err', deny: ['*'], when: `args.path == 'x'` }],
      {},
      'err',
      /cannot be evaluated.*No such key: path/,
      ['args.path', 'tool'],
    ],
    [
      [
        { id: 'ok', allow: ['*'] },
        { id: 'err', allow: ['*'], when: `args.path == 'x'` },
      ],
      {},
      'err',
      /cannot be evaluated/,
      ['args.path', 'tool'],
    ],
  ])('%j %j', (rules, filters, by, why, claims) => {
    expect(decide(rules as RuleText[], filters)).toMatchObject({
      allowed: false,
      rule: by,
      reason: expect.stringMatching(why),
      claims,
    });
  });

  test('an allowed call names its rule too', () => {
    expect(decide([{ id: 'ok', allow: ['notes__w*'] }])).toMatchObject({ allowed: true, rule: 'ok' });
    expect(decide([{ id: 'no', deny: ['*'], when: 'false' }])).toMatchObject({ allowed: true, rule: 'default' });
  });

  test('a permission is held exactly: a star in it is no wildcard', () => {
    const bounds = createTestRules([], { permissions: { write: 'notes:write' } }).for('notes');
    for (const permissions of [['*'], ['notes:*'], ['notes'], ['NOTES:WRITE'], ['notes:write2']])
      expect(bounds?.decide({ ...someone, permissions }, 'write', failOnRead).allowed).toBe(false);
    expect(bounds?.decide({ ...someone, permissions: ['notes:write'] }, 'write', failOnRead).allowed).toBe(true);
  });
});

test('a server without rules and filters has no tool rules', () => {
  const bounds = createTestRules([
    { id: 'a', deny: ['other__*'] },
    { id: 'b', deny: ['session_*'] },
  ]);
  expect(bounds.for('notes')).toBeUndefined();
  expect(bounds.for('other')).toBeDefined();
  expect(bounds.for('ambit')?.decide(someone, 'session_end', failOnRead)).toMatchObject({ allowed: false, rule: 'b' });
});

test('matching a hostile name takes at most the product of the lengths', () => {
  const { matches } = compileToolPattern(`${'*a'.repeat(90)}*b`);
  expect(matches('a'.repeat(512))).toBe(false);
  const bounds = createTestRules([], { deny: ['x'] }).for('notes');
  expect(bounds?.decide(someone, 'a'.repeat(1_000_000), failOnRead)).toMatchObject({ allowed: false });
  expect(bounds?.mayAllow(someone, 'a'.repeat(1_000_000))).toBe(false);
});
