import { expect, test } from 'vitest';
import { load, refusal } from '../load/loading.ts';

test('a condition that cannot be judged stops the start, at its line', async () => {
  const problems = await refusal(`version: 1
rules:
  - { id: a, deny: "x__*", when: "session.trust == 'direct'" }
  - id: b
    deny: x__y
    when: args.path.matches('a')
  - { id: c, deny: x__y, when: "args.path ==" }
  - { id: d, allow: x__y, when: "re(args.path, '(')" }
  - { id: e, allow: x__y, when: "'yes'" }
servers: { x: { command: x } }
`);
  expect(problems).toEqual([
    'ambit.yaml:3:34 rules[0].when: No such key: trust',
    'ambit.yaml:6:11 rules[1].when: matches() can hang; use re(text, pattern)',
    expect.stringMatching(/^ambit\.yaml:7:\d+ rules\[2\]\.when: ./),
    expect.stringMatching(/^ambit\.yaml:8:\d+ rules\[3\]\.when: the pattern "\(" is not valid: ./),
    'ambit.yaml:9:33 rules[4].when: a condition is true or false; this is a string',
  ]);
});

test.each([
  [
    'rules: [{ id: a, deny: "nots__*" }]',
    'rules[0].deny: "nots__*" fits no tool of any server; did you mean "notes__…"?',
  ],
  ['rules: [{ id: a, deny: "delete_*" }]', 'rules[0].deny: "delete_*" fits no tool of any server'],
])('%s looks like a bound and is none', async (rules, words) => {
  const { warnings } = await load(`version: 1\nservers: { notes: { command: x } }\n${rules}\n`);
  expect(warnings).toEqual([`ambit.yaml:3 ${words}`]);
});

test('a server’s own lists name its tools without the server', async () => {
  const { warnings } = await load('version: 1\nservers: { a: { command: x, tools: { deny: [a__x, x] } } }\n');
  expect(warnings).toEqual([
    'ambit.yaml:2 servers.a.tools.deny: here tools are named as the server does, without "a__"',
  ]);
});

test.each(['"*"', '"*__delete_*"', '"session_*"', '"note?__x"', '"notes__x"'])('%s fits something', async (deny) => {
  const { warnings } = await load(
    `version: 1\nservers: { notes: { command: x } }\nrules: [{ id: a, deny: ${deny} }]\n`,
  );
  expect(warnings).toEqual([]);
});

test.each(['Notes:Write', 'a b', ''])('%j is no permission', async (permission) => {
  const text = `version: 1\nservers: { a: { command: x, tools: { permissions: { y: ${JSON.stringify(permission)} } } } }\n`;
  expect((await refusal(text))[0]).toContain('expected a permission such as "notes:write"');
});
