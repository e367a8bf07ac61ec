import { describe, expect, test } from 'vitest';
import { compile, judgeCondition, someone } from './rules.ts';

describe('results of conditions', () => {
  test.each([
    [`session.trustLevel == 'sandboxed' && args.path.startsWith('prod/')`, '{"path":"prod/x"}', true],
    [`session.userId == 'ada' && session.agentId == ''`, '{}', true],
    [`'notes:write' in session.permissions`, '{}', false],
    [`server == 'notes' && tool == 'write'`, '{}', true],
    ['args.n > 4 && args.n < 5.5 && args.f == 2.5', '{"n":5,"f":2.5}', true],
    [`has(args.path) && args.path == 'x'`, '{}', false],
    [`'path' in args`, '{"path":null}', true],
    [`args.tags.exists(t, t == 'b')`, '{"tags":["a","b"]}', true],
    [`['a/', 'b/'].exists(p, args.path.startsWith(p))`, '{"path":"b/x"}', true],
    [`re(args.path, '^prod/[a-z]+$')`, '{"path":"prod/x"}', true],
    [`glob(args.path, 'src/*.ts')`, '{"path":"src/a/b.ts"}', false],
    [`glob(args.path, 'src/**.ts')`, '{"path":"src/a/b.ts"}', true],
    [`glob(args.path, 'a.c+?')`, '{"path":"a.c+d"}', true],
    [`glob(args.path, 'a.c+?')`, '{"path":"abc+d"}', false],
    [`under(args.path, 'prod')`, '{"path":"./a/..//prod/x"}', true],
    [`under(args.path, 'prod')`, '{"path":"production/x"}', false],
    [`under(args.path, '/srv/a')`, '{"path":"/srv/a/../b"}', false],
  ])('%s of %s is %s', (when, args, expected) => {
    expect(judgeCondition(when, args)).toBe(expected);
  });
});

describe('an error is neither true nor false', () => {
  test.each([
    [`args.path.startsWith('prod/')`, '{}', /No such key: path/],
    [`args.path.startsWith('prod/')`, '{"path":7}', /overload/],
    ['args.flag', '{"flag":"yes"}', /neither true nor false/],
    [`args.constructor == 'x' || args.hasOwnProperty == 'x'`, '{}', /No such key/],
    [`under(args.path, 'prod')`, '{"path":"/home/prod/x"}', /absolute/],
    [`under(args.path, 'prod')`, '{"path":"../home/prod/x"}', /leaves its starting folder/],
    [`under(args.path, 'prod')`, String.raw`{"path":"a\\..\\prod"}`, /cannot be checked/],
    [`under(args.path, 'prod')`, String.raw`{"path":"prod\u0000"}`, /cannot be checked/],
    [`under(args.path, '/root')`, '{"path":"~/x"}', /cannot be checked/],
  ])('%s of %s', (when, args, words) => {
    expect(judgeCondition(when, args)).toMatch(words);
  });
});

describe('conditions that are refused when loaded', () => {
  test.each([
    ['', /./],
    ['1 +', /./],
    ["'yes'", /true or false/],
    ['session.trust == "direct"', /No such key: trust/],
    ['sesion.id == "x"', /Unknown variable/],
    ['server == 1', /overload/],
    [`args.path.matches('^(a+)+$')`, /re\(text, pattern\)/],
    [`args.l.map(x, x + x).exists(x, x == '')`, /unknown function map/],
    [`cel.bind(x, args.a + args.a, x == '')`, /unknown function bind/],
    [`bytes(args.a).json().x == 1`, /unknown function/],
    [`timestamp(args.a) == timestamp(args.b)`, /unknown function timestamp/],
    ['re(args.path, args.pattern)', /written in the rule/],
    ['glob(args.path, session.userId)', /written in the rule/],
    [`re(args.path, '(')`, /not valid/],
    [`re(args.path, '(?=a)b')`, /not valid/],
    [`re(args.path, '(a{0,1000})(b{0,1000})')`, /too large/],
    ['args.a.all(x, args.b.all(y, args.c.all(z, x == y && y == z)))', /nested at most 2/],
    [`args.a == '${'x'.repeat(5000)}'`, /at most 4096/],
    [`${'('.repeat(2000)}true${')'.repeat(2000)}`, /./],
    [`${'!'.repeat(2000)}true`, /./],
    [Array(600).fill('true').join(' && '), /./],
  ])('%s', (when, words) => {
    const found = compile(when);
    expect('problem' in found && found.problem).toMatch(words);
  });
});

describe('hostile arguments neither allow more nor hang', () => {
  const deny = `args.path.startsWith('prod/')`;

  test.each([
    ['{"path":"ok","path":"prod/x"}', /"path" is in them twice/],
    [String.raw`{"path":"ok","p\u0061th":"prod/x"}`, /twice/],
    ['{"path":"ok","Path":"prod/x"}', /different spelling/],
    ['{"path":"ok","deep":{"PATH":"prod/x"}}', /different spelling/],
    ['{"Path":"prod/x"}', /different spelling/],
    ['{"path":"ok","n":9007199254740993}', /too large to be read exactly/],
    ['{"path":"ok","n":1e999}', /too large to be read exactly/],
    [String.raw`{"path":"\ud800"}`, /not valid Unicode/],
    [`{"path":"ok","deep":${'['.repeat(100)}${']'.repeat(100)}}`, /nested too deeply/],
    [`{"path":"ok","many":[${'0,'.repeat(100_000)}0]}`, /too large/],
    [`{"path":"ok","long":"${'x'.repeat(5_000_000)}"}`, /too large/],
    ['["path"]', /not an object/],
    ['null', /not an object/],
  ])('%.60s cannot be judged', (args, words) => {
    expect(judgeCondition(deny, args)).toMatch(words);
  });

  test('special names of JavaScript are ordinary names', () => {
    const args = '{"constructor":{"prototype":{"path":"prod/y"}}}';
    expect(judgeCondition('has(args.path)', args)).toBe(false);
    expect(judgeCondition(`args.constructor.prototype.path == 'prod/y'`, args)).toBe(true);
    // A server that copies its arguments would read these as its own properties.
    expect(judgeCondition('has(args.path)', '{"__proto__":{"path":"prod/x"}}')).toMatch(/__proto__/);
    expect(({} as { path?: string }).path).toBeUndefined();
  });

  test('patterns that would hang other engines answer, or report that the text is too long', () => {
    for (const pattern of ['^(a+)+$', '(a|aa)+$', '^(([a-z])+.)+[A-Z]([a-z])+$', '(.*)*x', '(a{1,100}){1,9}$']) {
      const verdicts = [20, 1000, 3_000_000].map((n) =>
        judgeCondition(`re(args.t, '${pattern}')`, JSON.stringify({ t: `${'a'.repeat(n)}!` })),
      );
      expect(verdicts[0]).toBe(false);
      expect(verdicts[2]).toMatch(/too long/);
    }
  });

  test('all texts of one evaluation share a budget', () => {
    const args = JSON.stringify({ l: Array(900).fill('a'.repeat(400)) });
    expect(judgeCondition(`args.l.exists(t, re(t, '^b(a+)+$'))`, args)).toMatch(/too/);
  });

  test('loops over too many values are not started', () => {
    const args = JSON.stringify({ a: Array(2000).fill('x') });
    expect(judgeCondition('args.a.all(x, args.a.all(y, x == y))', args)).toMatch(/too large to be evaluated/);
    expect(judgeCondition('args.a.all(x, x == args.a[0])', args)).toBe(true);
  });

  test('arguments that a rule does not read may be large', () => {
    expect(judgeCondition(deny, JSON.stringify({ path: 'prod/x', content: 'x'.repeat(3_000_000) }))).toBe(true);
    const prefixes = `['a/', 'prod/'].exists(p, args.path.startsWith(p))`;
    expect(judgeCondition(prefixes, JSON.stringify({ path: 'prod/x', content: 'x'.repeat(3_000_000) }))).toBe(true);
  });
});

test('the claims of a condition are found in its text', () => {
  const condition = compile(`session.userId == 'a' || (tool == 'b' && args.o.k == 1 && args['x'] == 2 && 'y' in args)`);
  if ('problem' in condition) throw new Error(condition.problem);
  expect(condition).toMatchObject({ readsArgs: true, claims: ['args.o.k', 'session.userId', 'tool'] });
  expect([...condition.names].sort()).toEqual(['k', 'o', 'x', 'y']);
  expect(judgeCondition(`session.permissions == ['notes:read']`, '{}', someone)).toBe(true);
});
