import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { configSchema } from '../../../src/config/schema/schema.ts';
import { contractExample } from './contract-example.ts';

const server = (keys: object) => configSchema.safeParse({ version: 1, servers: { a: keys } });
const refused = (value: unknown): boolean => !configSchema.safeParse(value).success;

test('the example of the contract is valid as it stands', () => {
  expect(configSchema.safeParse(parse(contractExample)).error).toBeUndefined();
});

test('a file with nothing but its version gets the defaults of the contract', () => {
  expect(configSchema.parse({ version: 1 })).toEqual({
    version: 1,
    listen: {
      host: '127.0.0.1',
      port: 7420,
      behindProxy: false,
      allowedHosts: [],
      allowedOrigins: [],
      maxConnections: 512,
    },
    auth: { anonymous: 'off', onInvalidKey: 'refuse', jwt: [] },
    store: { kind: 'sqlite' },
    sessions: {
      ttlSeconds: 3600,
      maxLifetimeSeconds: 86_400,
      maxSessions: 1000,
      maxPerUser: 200,
      metadataBytes: 10_240,
      includeMeta: false,
      defaultTrust: 'sandboxed',
      allowDirect: 'auto',
      children: { token: 'orchestrator', maxDepth: 3, maxChildren: 16 },
      messages: { maxBytes: 65_536, maxPerMinute: 120, maxUnread: 1000 },
      bindAddress: false,
    },
    quotas: { session: { callsPerMinute: 6000, concurrentCalls: 64 }, user: {}, workspace: {} },
    credentials: {},
    context: { envPrefixes: ['AMBIT'], announceKeys: ['ambit'] },
    events: {},
    journal: { keepDays: 30, maxTotalMb: 1024 },
    telemetry: { headers: {}, sampleRatio: 1 },
    processes: { startSeconds: 30, idleSeconds: 300, maxSeconds: 86_400, maxPerSession: 8, max: 512 },
    limits: { bodyBytes: 4_194_304, messageBytes: 16_777_216, notificationsPerSecond: 1000, pendingPerUpstream: 1024 },
    include: [],
    servers: {},
    rules: [],
    workspaces: {},
    workspacePatterns: {},
    governance: { teams: [], users: [], carrier: 'first-result', policies: [], objectives: [] },
  });
});

describe('a server', () => {
  test('with a command is completed as a process', () => {
    expect(server({ command: 'node' }).data?.servers['a']).toEqual({
      transport: 'stdio',
      command: 'node',
      args: [],
      env: {},
      disabled: false,
      trust: ['direct', 'sandboxed'],
      era: 'auto',
      timeoutSeconds: 600,
      scope: 'session',
      contextAware: false,
      context: 'full',
      signature: 'process',
      sandbox: {
        network: [],
        readable: [],
        writable: [],
        memoryMb: 512,
        pids: 64,
        cpus: 1,
        fileMb: 1024,
        openFiles: 1024,
        wallSeconds: 86_400,
      },
      tools: { allow: ['*'], deny: [], permissions: {}, instead: {}, hideReplaced: false, confirm: [] },
      catalog: 'private',
      cache: {},
      source: 'operator',
    });
  });

  test('with a url is open to direct sessions only and gets pseudonyms', () => {
    expect(server({ url: 'https://example.com/mcp' }).data?.servers['a']).toMatchObject({
      transport: 'http',
      headers: {},
      trust: ['direct'],
      context: 'pseudonymous',
    });
  });

  test.each([
    [{ command: 'node' }, 'process'],
    [{ command: 'node', scope: 'call' }, 'process'],
    [{ command: 'node', signature: 'public' }, 'public'],
    [{ command: 'node', scope: 'user', contextAware: true }, 'public'],
    [{ url: 'https://example.com/mcp' }, 'public'],
  ])('%j has its context signed for %s', (entry, signature) => {
    expect(server(entry).data?.servers['a']?.signature).toBe(signature);
  });

  test('takes one trust level or several, by any spelling, each once', () => {
    expect(server({ command: 'x', trust: 'untrusted' }).data?.servers['a']?.trust).toEqual(['sandboxed']);
    expect(server({ command: 'x', trust: ['trusted', 'direct'] }).data?.servers['a']?.trust).toEqual(['direct']);
  });

  test.each([
    [{}],
    [{ command: 'x', url: 'http://h/' }],
    [{ command: '' }],
    [{ command: 'a\u0000b' }],
    [{ command: 'x', args: ['a\u0000b'] }],
    [{ command: 'x', env: { 'A=B': 'c' } }],
    [{ command: 'x', env: { A: 'b\u0000' } }],
    [{ command: 'x', env: { A: 1 } }],
    [{ command: 'x', cwd: '/' }],
    [{ command: 'x', headers: {} }],
    [{ command: 'x', type: 'http' }],
    [{ command: 'x', transport: 'streamable-http' }],
    [{ command: 'x', type: 'sse' }],
    [{ command: 'x', trust: [] }],
    [{ command: 'x', trust: ['full'] }],
    [{ command: 'x', scope: 'shared' }],
    [{ command: 'x', scope: 'user', contextAware: false }],
    [{ command: 'x', signature: 'none' }],
    [{ command: 'x', scope: 'user', contextAware: true, signature: 'process' }],
    [{ command: 'x', scope: 'workspace', contextAware: true, signature: 'process' }],
    [{ command: 'x', scope: 'shared', contextAware: true, signature: 'process' }],
    [{ url: 'http://h/', signature: 'process' }],
    [{ command: 'x', timeoutSeconds: 0 }],
    [{ command: 'x', timeoutSeconds: 2_147_484 }],
    [{ command: 'x', sandbox: { network: ['example.com'] } }],
    [{ command: 'x', sandbox: { network: ['example.com:70000'] } }],
    [{ command: 'x', sandbox: { network: ['https://example.com:443'] } }],
    [{ command: 'x', sandbox: { network: ['*.com:443'] } }],
    [{ command: 'x', sandbox: { network: ['127.1:443'] } }],
    [{ command: 'x', sandbox: { network: ['user@example.com:443'] } }],
    [{ command: 'x', sandbox: { image: '--privileged' } }],
    [{ command: 'x', sandbox: { image: 'a b' } }],
    [{ command: 'x', sandbox: { image: '' } }],
    [{ command: 'x', cache: { t: {} } }],
    [{ url: 'http://h/', args: [] }],
    [{ url: 'http://h/', env: {} }],
    [{ url: 'http://h/', sandbox: {} }],
    [{ url: 'http://h/', scope: 'call' }],
    [{ url: 'http://h/', scope: 'shared', contextAware: true }],
    [{ url: 'http://h/', type: 'stdio' }],
    [{ url: 'ftp://h/' }],
    [{ url: 'file:///etc/passwd' }],
    [{ url: 'javascript:alert(1)' }],
    [{ url: 'http://user@h/' }],
    [{ url: 'http://user:password@h/' }],
    [{ url: 'http://h\n.example/' }],
    [{ url: ' http://h/' }],
    [{ url: 'h' }],
    [{ url: 'http://h/', headers: { 'x y': 'x' } }],
    [{ url: 'http://h/', headers: { X: 'a\r\nY: b' } }],
    [{ url: 'http://h/', headers: { X: 'a', x: 'b' } }],
  ])('is refused as %j', (keys) => {
    expect(server(keys).success).toBe(false);
  });

  test.each([
    ...['Host', 'TXN-token', 'mcp-session-id', 'mcp-protocol-version', 'Accept', 'Content-Type', 'Content-Length'],
    ...['Connection', 'Keep-Alive', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade'],
  ])('may not set the header %s, which the gateway writes itself', (name) => {
    expect(server({ url: 'http://h/', headers: { [name]: 'x' } }).success).toBe(false);
  });

  test.each([
    [{ command: 'x', type: 'stdio', transport: 'stdio' }],
    [{ url: 'http://h/', type: 'http' }],
    [{ url: 'http://h/', transport: 'streamable-http' }],
    [{ url: 'HTTPS://h/?key=1', headers: { Authorization: 'Bearer x' } }],
    [{ command: 'x', scope: 'shared', contextAware: true }],
    [{ command: 'x', scope: 'call' }],
    [{ url: 'http://h/', scope: 'session' }],
    [{ command: 'x', sandbox: { network: ['*.example.com:443', '[::1]:80', 'bücher.example:443', 'localhost:1'] } }],
    [{ command: 'x', sandbox: { image: 'registry.example:5000/a/b-c_d@sha256:0123abcd' } }],
    [{ command: 'x', disabled: true }],
  ])('is accepted as %j', (keys) => {
    expect(server(keys).error).toBeUndefined();
  });
});

describe('names', () => {
  const named = (name: string) => configSchema.safeParse({ version: 1, servers: { [name]: { command: 'x' } } }).success;
  const slug = (name: string) => configSchema.safeParse({ version: 1, workspaces: { [name]: { path: '/x' } } }).success;

  test.each(['a', '0', 'a-b', 'a--b', 'constructor', 'a'.repeat(40)])('%s names a server', (name) => {
    expect(named(name)).toBe(true);
  });
  test.each(['', '-a', 'a-', '-', 'A', 'a_b', 'a__b', 'a.b', 'a b', 'a\n', 'é', 'a'.repeat(41), 'ambit', 'a/b'])(
    '%j names no server',
    (name) => {
      expect(named(name)).toBe(false);
    },
  );
  test.each(['a', '0', 'a-b_c.d', 'a'.repeat(63), 'toString'.toLowerCase()])('%s is a slug', (name) => {
    expect(slug(name)).toBe(true);
  });
  test.each(['', '.', '..', '-a', '_a', '.a', 'A', 'a/b', 'a b', 'a\n', 'a'.repeat(64)])('%j is no slug', (name) => {
    expect(slug(name)).toBe(false);
  });
});

test('anonymous use is switched off by off and by false', () => {
  expect(configSchema.parse({ version: 1, auth: { anonymous: false } }).auth.anonymous).toBe('off');
  expect(configSchema.parse(parse('version: 1\nauth: { anonymous: off }')).auth.anonymous).toBe('off');
  expect(refused({ version: 1, auth: { anonymous: true } })).toBe(true);
});

test('a store of kind redis needs its address, and the address alone means redis', () => {
  const redis = { url: 'redis://localhost:6379' };
  expect(refused({ version: 1, store: { kind: 'redis' } })).toBe(true);
  expect(refused({ version: 1, store: { kind: 'sqlite', redis } })).toBe(true);
  expect(refused({ version: 1, store: { kind: 'redis', redis: { url: 'http://localhost' } } })).toBe(true);
  expect(configSchema.parse({ version: 1, store: { redis } }).store).toEqual({ kind: 'redis', redis });
  expect(configSchema.parse({ version: 1, store: { redis: undefined } }).store.kind).toBe('sqlite');
});

test.each([
  [{ host: '' }],
  [{ host: '*' }],
  [{ host: '[::1]' }],
  [{ host: 'a b' }],
  [{ port: -1 }],
  [{ port: 65_536 }],
  [{ port: 80.5 }],
  [{ port: '7420' }],
  [{ allowedOrigins: ['*'] }],
  [{ allowedOrigins: ['https://app.example.com/'] }],
  [{ allowedOrigins: ['null'] }],
  [{ allowedHosts: ['*'] }],
  [{ allowedHosts: ['https://h'] }],
  [{ publicUrl: 'example.com' }],
  [{ tls: { cert: 'a.pem' } }],
])('listen is refused as %j', (listen) => {
  expect(refused({ version: 1, listen })).toBe(true);
});

test.each([
  [{ id: 'a' }],
  [{ id: 'a', allow: 'x', deny: 'y' }],
  [{ id: 'A', deny: 'x' }],
  [{ id: 'a', deny: [] }],
  [{ id: 'a', deny: 'x', when: '' }],
  [{ deny: 'x' }],
])('a rule is refused as %j', (rule) => {
  expect(refused({ version: 1, rules: [rule] })).toBe(true);
});

test('two rules may not share an id, and one pattern is read as a list of one', () => {
  const rule = { id: 'a', deny: 'x' };
  expect(refused({ version: 1, rules: [rule, rule] })).toBe(true);
  expect(configSchema.parse({ version: 1, rules: [rule] }).rules[0]?.deny).toEqual(['x']);
});

test.each(['org', 'team:core', 'user:ann', 'workspace:my-project'])('%s is a scope of governance', (scope) => {
  expect(refused({ version: 1, governance: { objectives: [{ scope, text: 'x' }] } })).toBe(false);
});

test.each(['', 'organisation', 'team:', 'session:x', 'user:a b'])('%j is no scope of governance', (scope) => {
  expect(refused({ version: 1, governance: { objectives: [{ scope, text: 'x' }] } })).toBe(true);
});

test.each([2, 0, '1', 1.5, null, undefined, true])('version %j is refused', (version) => {
  expect(refused({ version })).toBe(true);
});

test.each(['progressToken', 'Baggage', 'traceparent', 'tracestate', 'io.modelcontextprotocol/x', 'a.b', '', '1'])(
  '%j is no key to announce a workspace under',
  (key) => {
    expect(refused({ version: 1, context: { announceKeys: [key] } })).toBe(true);
  },
);
