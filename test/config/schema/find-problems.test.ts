import { describe, expect, test } from 'vitest';
import { findNotBuilt, notBuiltYet } from '../../../src/config/schema/find-problems.ts';
import { listKnownKeys } from '../../../src/config/schema/json-schema.ts';
import { loadText, problemsOf } from '../load/load-text.ts';
import { contractExample } from './contract-example.ts';

const wider = 'not supported yet; without it a session would be allowed to do more';
const servers = 'version: 1\nservers: { notes: { command: x }, search: { command: y } }\n';
const override = (name: string, value = 'v') =>
  `${servers}workspaces: { w: { path: /w, env: { notes: { ${name}: ${JSON.stringify(value)} } } } }\n`;

describe('P7: variables that a workspace sets for a server', () => {
  test.each(['AMBIT_SESSION_ID', 'AMBIT_TRUST_LEVEL', 'AMBIT_JWKS', 'ambit_trust_level', 'Ambit_User_Id'])(
    '%s is ours, and refused with its line',
    async (name) => {
      const [problem, ...others] = await problemsOf(override(name));
      expect(problem).toContain(
        `ambit.yaml:3:46 workspaces.w.env.notes.${name}: this variable describes the session of a server`,
      );
      expect(others).toEqual([]);
    },
  );

  test('the names of further prefixes are ours as well', async () => {
    const text = override('PARACHUTE_WORKSPACE_ID');
    expect((await loadText(text)).warnings).toEqual([]);
    expect(await problemsOf(`${text}context: { envPrefixes: [AMBIT, PARACHUTE] }\n`)).toHaveLength(1);
  });

  test.each(['LD_PRELOAD', 'DYLD_INSERT_LIBRARIES', 'NODE_OPTIONS', 'PYTHONPATH', 'PATH', 'BASH_ENV', 'ld_preload'])(
    '%s decides what runs, and is refused',
    async (name) => {
      expect((await problemsOf(override(name)))[0]).toContain('run something other than its command');
    },
  );

  test('a line end in a value is refused, without the value', async () => {
    const [problem] = await problemsOf(override('FINE', 'secret\nLD_PRELOAD=x'));
    expect(problem).toContain('contains a line break');
    expect(problem).not.toContain('secret');
  });

  test('others are taken, those that only begin like ours included', async () => {
    const { config, warnings } = await loadText(override('PARACHUTE_VAULT_PATH', '/vault'));
    expect(config.workspaces['w']?.env).toEqual({ notes: { PARACHUTE_VAULT_PATH: '/vault' } });
    expect(warnings).toEqual([]);
  });
});

test('P7: a server that no one describes is a warning with its line: it can only narrow', async () => {
  const { config, warnings } = await loadText(
    `${servers}workspaces:\n  w:\n    path: /w\n    capabilities:\n      servers:\n        - notes\n        - serach\n    env: { note: { A: b } }\n`,
  );
  expect(warnings).toEqual([
    'ambit.yaml:9 workspaces.w.capabilities.servers[1]: there is no server "serach"; did you mean "search"?',
    'ambit.yaml:10 workspaces.w.env.note: there is no server "note"; did you mean "notes"?',
  ]);
  expect(config.workspaces['w']?.capabilities.servers).toEqual(['notes', 'serach']);
});

test('W7: a pattern for paths that cannot be read is refused: it would close nothing', async () => {
  const files = (pattern: string) =>
    `${servers}workspaces: { w: { path: /w, files: { hide: [${JSON.stringify(pattern)}] } } }\n`;
  for (const pattern of ['[secret', 'a{b,c', 'x\\', '{a,b}'.repeat(20), '\uff3bsecret']) {
    const [problem, ...others] = await problemsOf(files(pattern));
    expect(problem).toContain('workspaces.w.files.hide[0]: this is not a valid glob');
    expect(others).toEqual([]);
  }
  expect((await loadText(files('secrets/**/{a,b}[0-9].json'))).warnings).toEqual([]);
});

test('a condition that cannot be judged stops the start, at its line', async () => {
  const problems = await problemsOf(`version: 1
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
    'ambit.yaml:9:33 rules[4].when: a condition must be true or false; this is a string',
  ]);
});

test.each([
  [
    'rules: [{ id: a, deny: "nots__*" }]',
    'rules[0].deny: "nots__*" matches no tool of any server; did you mean "notes__…"?',
  ],
  ['rules: [{ id: a, deny: "delete_*" }]', 'rules[0].deny: "delete_*" matches no tool of any server'],
])('%s looks like a bound and is none', async (rules, words) => {
  const { warnings } = await loadText(`version: 1\nservers: { notes: { command: x } }\n${rules}\n`);
  expect(warnings).toEqual([`ambit.yaml:3 ${words}`]);
});

test('a server’s own lists name its tools without the server', async () => {
  const { warnings } = await loadText('version: 1\nservers: { a: { command: x, tools: { deny: [a__x, x] } } }\n');
  expect(warnings).toEqual(['ambit.yaml:2 servers.a.tools.deny: tool names here have no "a__" prefix']);
});

test.each(['"*"', '"*__delete_*"', '"session_*"', '"note?__x"', '"notes__x"'])('%s fits something', async (deny) => {
  const { warnings } = await loadText(
    `version: 1\nservers: { notes: { command: x } }\nrules: [{ id: a, deny: ${deny} }]\n`,
  );
  expect(warnings).toEqual([]);
});

test.each(['Notes:Write', 'a b', ''])('%j is no permission', async (permission) => {
  const text = `version: 1\nservers: { a: { command: x, tools: { permissions: { y: ${JSON.stringify(permission)} } } } }\n`;
  expect((await problemsOf(text))[0]).toContain('expected a permission such as "notes:write"');
});

test('in the example of the contract, each key that is written and not built warns once', async () => {
  const { warnings } = await loadText(contractExample);
  expect(warnings).toEqual(['.mcp.json: there is no such file; its servers are not loaded']);
});

test('what is built does not warn', async () => {
  const { warnings } = await loadText(`version: 1
listen: { host: localhost, port: 0, allowedHosts: [a.example], allowedOrigins: ["https://a.example"], publicUrl: "https://a.example" }
auth: { anonymous: loopback, onInvalidKey: anonymous, jwt: [{ issuer: "https://i.example", audience: [a], jwksUri: "https://i.example/k" }] }
store: { kind: memory }
sessions: { ttlSeconds: 1, maxLifetimeSeconds: 2, maxSessions: 3, maxPerUser: 4, defaultTrust: direct }
processes: { startSeconds: 1, idleSeconds: 0.5, maxSeconds: 2 }
limits: { bodyBytes: 1, messageBytes: 2, notificationsPerSecond: 3, pendingPerUpstream: 4 }
rules: [{ id: r, deny: [a__x, "b__*"], when: tool == 'x' }]
servers:
  a: { command: x, tools: { allow: ["a*"], deny: [b], permissions: { "w_*": "a:w" }, confirm: [] }, args: [y], env: { A: b }, type: stdio, trust: direct, era: modern, timeoutSeconds: 1, disabled: true, push: { roots: true }, sandbox: { network: ["a.example:443"], readable: [/r], writable: [/v], memoryMb: 9, pids: 8 } }
  b: { url: "http://h/", headers: { A: b }, transport: http }
workspaces:
  w: { path: /w, trust: sandboxed, capabilities: { servers: [a, b] }, env: { a: { A: c } } }
  n: { path: /n, capabilities: { servers: none } }
context: { envPrefixes: [AMBIT, PARACHUTE] }
`);
  expect(warnings).toEqual([]);
});

describe('a start without these would widen something', () => {
  test.each([
    ['servers: { a: { command: x, tools: { confirm: [b] } } }', '2:38 servers.a.tools.confirm'],
    ['servers: { a: { command: x, disabled: true, tools: { confirm: [b] } } }', '2:54 servers.a.tools.confirm'],
  ])('%s', async (text, place) => {
    expect(await problemsOf(`version: 1\n${text}\n`)).toEqual([`ambit.yaml:${place}: ${wider}`]);
  });

  test('TLS, on loopback and behind a proxy as well', async () => {
    const tls = 'tls: { cert: a.pem, key: b.pem }';
    for (const listen of [`{ ${tls} }`, `{ ${tls}, host: 0.0.0.0, behindProxy: true }`]) {
      const [problem, ...others] = await problemsOf(`version: 1\nlisten: ${listen}\n`);
      expect(problem).toContain('listen.tls: not supported yet; without it data would be sent unencrypted');
      expect(others).toEqual([]);
    }
  });
});

test('a warning contains no control character of a name', async () => {
  await expect(loadText('version: 1\nworkspaces: { "a\\e": { path: /w, env: {} } }\n')).rejects.toThrow('"a\\u001b"');
});

test('every row names a key of the schema', () => {
  const known = new Set(listKnownKeys().map(({ key }) => key));
  expect(notBuiltYet.filter(({ key }) => !known.has(key))).toEqual([]);
});

test('a row that is taken out is built', () => {
  const file = { listen: { tls: {} } };
  const paths = (rows = notBuiltYet) => findNotBuilt(file, rows).map(({ path }) => path);
  expect(paths()).toContainEqual(['listen', 'tls']);
  expect(paths(notBuiltYet.filter(({ key }) => key !== 'listen.tls'))).toEqual([]);
});

test.each([null, [], 'x', { servers: null }, { servers: { a: null } }, { servers: [] }])(
  '%j has nothing to find',
  (file) => {
    expect(findNotBuilt(file)).toEqual([]);
  },
);
