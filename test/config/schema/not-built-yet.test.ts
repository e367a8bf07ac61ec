import { describe, expect, test } from 'vitest';
import { knownKeys } from '../../../src/config/schema/json-schema.ts';
import { findNotBuilt, notBuiltYet } from '../../../src/config/schema/workspace-rules.ts';
import { load, refusal } from '../load/loading.ts';
import { contractExample } from './contract-example.ts';

const wider = 'not built yet; starting without it would widen what a session may do';

test('in the example of the contract, each key that is written and not built warns once', async () => {
  const { warnings } = await load(contractExample);
  expect(warnings).toEqual(['.mcp.json: there is no such file; its servers are absent']);
});

test('what is built does not warn', async () => {
  const { warnings } = await load(`version: 1
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
    expect(await refusal(`version: 1\n${text}\n`)).toEqual([`ambit.yaml:${place}: ${wider}`]);
  });

  test('TLS, on loopback and behind a proxy as well', async () => {
    const tls = 'tls: { cert: a.pem, key: b.pem }';
    for (const listen of [`{ ${tls} }`, `{ ${tls}, host: 0.0.0.0, behindProxy: true }`]) {
      const [problem, ...others] = await refusal(`version: 1\nlisten: ${listen}\n`);
      expect(problem).toContain('listen.tls: not built yet; starting without it would send in the clear');
      expect(others).toEqual([]);
    }
  });
});

test('a warning carries no control character of a name', async () => {
  await expect(load('version: 1\nworkspaces: { "a\\e": { path: /w, env: {} } }\n')).rejects.toThrow('"a\\u001b"');
});

test('every row names a key of the schema', () => {
  const known = new Set(knownKeys().map(({ key }) => key));
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
