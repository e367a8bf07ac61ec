import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { Config } from '../../../src/config/schema/schema.ts';
import { createMcpServers } from '../../../src/gateway/inspect/mcp-servers.ts';
import type { Log, LogFields } from '../../../src/observability/log/log.ts';
import { createSafeLog } from '../../../src/observability/log/safe-log.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import { openSession } from '../../../src/sessions/open-session.ts';
import { createSessions, type Sessions } from '../../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { createServerResolution } from '../../../src/upstreams/access/resolution.ts';
import { defineServers } from '../../../src/upstreams/definition.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { counts } from '../../proof.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'ambit-resolution-'));
const approvals = createApprovals({ dataDir });
afterAll(() => {
  approvals.close();
  rmSync(dataDir, { recursive: true });
});

type Options = Parameters<typeof createServerResolution>[0];

function resolutionOf(config: Config, servers: ReturnType<Options['servers']>, sessions: Sessions, log: Log) {
  const shared = { approvals, dataDir, configFile: '/etc/ambit/ambit.yaml', signing: undefined };
  const now = { config: () => config, servers: () => servers, latest: sessions.get };
  return createServerResolution({ ...shared, ...now, log });
}

const names = ['a', 'b', 'c', 'all', 'none'];
const someNames = fc.uniqueArray(fc.constantFrom(...names));
const level = fc.constantFrom('direct', 'sandboxed');
const server = fc.record({
  trust: fc.uniqueArray(level, { minLength: 1 }),
  disabled: fc.boolean(),
  imported: fc.boolean(),
  remote: fc.boolean(),
});
const setting = fc.record({
  servers: fc.record(Object.fromEntries(names.map((name) => [name, server])), { requiredKeys: [...names] }),
  capabilities: fc.oneof(fc.constantFrom('all', 'none'), someNames),
  inWorkspace: fc.boolean(),
  own: fc.option(someNames, { nil: undefined }),
  trust: level,
});

async function build(facts: typeof setting extends fc.Arbitrary<infer Facts> ? Facts : never) {
  const servers = Object.entries(facts.servers).map(([name, { trust, disabled, imported, remote }]) => [
    name,
    {
      ...(remote ? { url: 'https://x.example/mcp' } : { command: 'node', env: { MINE: name } }),
      trust,
      disabled,
      ...(imported ? { imported: 'elsewhere' } : {}),
    },
  ]);
  const text = JSON.stringify({
    version: 1,
    servers: Object.fromEntries(servers),
    workspaces: { w: { path: '/srv/w', capabilities: { servers: facts.capabilities }, env: { a: { MINE: 'w' } } } },
  });
  const { config } = await loadConfig({ text, file: '/etc/ambit/ambit.yaml' });
  const defined = defineServers(config, '/etc/ambit');
  const sessions = createSessions({ store: openMemoryStore(), bounds: config.sessions });
  const { session } = await openSession(sessions, config, {
    trustLevel: facts.trust as 'direct',
    ...(facts.inWorkspace ? { workspaceId: 'w' } : {}),
    ...(facts.own === undefined ? {} : { servers: facts.own }),
  });
  const resolution = resolutionOf(config, defined, sessions, { info() {}, warn() {} });
  return { config, sessions, session, resolution };
}

test('P2: no server that any step removes survives, none is removed without a reason, none is lost', async () => {
  await fc.assert(
    fc.asyncProperty(setting, async (facts) => {
      const { session, resolution, sessions } = await build(facts);
      const explained = resolution.explain(session);
      expect(explained.map(({ name }) => name)).toEqual(names);
      const available = resolution.listAvailable(session).map(({ name }) => name);
      const ready = createMcpServers(
        session,
        explained,
        { configFile: '/etc/ambit/ambit.yaml', dataDir },
        () => false,
        new Set(),
      );
      for (const each of explained) {
        const { name } = each;
        const described = facts.servers[name] as typeof server extends fc.Arbitrary<infer One> ? One : never;
        const wrong = {
          [`servers.${name}.disabled`]: described.disabled,
          [`servers.${name}.trust`]: !described.trust.includes(facts.trust),
          'workspaces.w.capabilities.servers':
            facts.inWorkspace &&
            facts.capabilities !== 'all' &&
            (facts.capabilities === 'none' || !facts.capabilities.includes(name)),
          'session.servers': facts.own !== undefined && !facts.own.includes(name),
          approval: described.imported,
        };
        const first = Object.entries(wrong).find(([, removes]) => removes)?.[0];
        expect(each.server === undefined ? each.removal.rule : undefined).toBe(first);
        if (each.server === undefined) expect(each.removal.reason).toMatch(/^\S.*\S$/);
        expect(Object.hasOwn(ready, name)).toBe(first === undefined);
        const callable = first === undefined || first === 'approval';
        expect(available.includes(name)).toBe(callable);
        expect(resolution.find(session, name).server !== undefined).toBe(callable);
        const entry = ready[name];
        if (entry === undefined || !('command' in entry)) continue;
        expect(entry.env).toMatchObject({
          MINE: facts.inWorkspace && name === 'a' ? 'w' : name,
          AMBIT_SESSION_ID: session.id,
          AMBIT_TRUST_LEVEL: facts.trust,
          AMBIT_WORKSPACE_ID: facts.inWorkspace ? 'w' : '',
        });
        expect(entry.args.includes('--session')).toBe(facts.trust === 'sandboxed');
      }
      await sessions.close();
    }),
    { numRuns: counts(100, 2000) },
  );
});

test('P6: a record from before a restriction decides nothing any more', async () => {
  const open = { trust: ['direct', 'sandboxed'], disabled: false, imported: false, remote: false };
  const servers = Object.fromEntries(names.map((name) => [name, { ...open }]));
  servers['b'] = { ...open, trust: ['direct'] };
  const { session, sessions, resolution } = await build({
    servers: servers as never,
    capabilities: 'all',
    inWorkspace: false,
    own: undefined,
    trust: 'direct',
  });
  expect(resolution.requireAccess(session, 'b').server.name).toBe('b');
  const stale = session;
  await sessions.restrict(session.id, { trustLevel: 'sandboxed', servers: ['b', 'c'] });
  expect(() => resolution.requireAccess(stale, 'b')).toThrow(expect.objectContaining({ code: 'SERVER_NOT_AVAILABLE' }));
  expect(() => resolution.requireAccess(stale, 'a')).toThrow(expect.objectContaining({ code: 'SERVER_NOT_AVAILABLE' }));
  expect(resolution.listAvailable(stale).map(({ name }) => name)).toEqual(['c']);
  const { server: c } = resolution.requireAccess(stale, 'c');
  expect(c.kind === 'stdio' && resolution.launch(stale, c).env['AMBIT_TRUST_LEVEL']).toBe('sandboxed');
  await sessions.end(session.id);
  expect(() => resolution.requireAccess(stale, 'c')).toThrow(expect.objectContaining({ code: 'SESSION_ENDED' }));
  expect(resolution.listAvailable(stale)).toEqual([]);
});

test('P15: one debug line for each injection, with eight characters of the session', async () => {
  const lines: string[] = [];
  const { config } = await loadConfig({
    text: 'version: 1\nservers: { a: { command: x, env: { TOKEN: sk-secret } } }\nworkspaces: { w: { path: /srv/w } }',
    file: '/etc/ambit/ambit.yaml',
  });
  const servers = defineServers(config, '/etc/ambit');
  const sessions = createSessions({ store: openMemoryStore(), bounds: config.sessions });
  const log = {
    info() {},
    warn() {},
    debug: (event: string, fields?: LogFields) => void lines.push(formatTextLine(event, fields)),
  };
  const resolution = resolutionOf(config, servers, sessions, createSafeLog(log));
  const a = servers.get('a');
  if (a?.kind !== 'stdio') throw new Error('it is a stdio server');
  const one = (await openSession(sessions, config, { workspaceId: 'w', trustLevel: 'direct' })).session;
  const two = (await openSession(sessions, config, {})).session;
  for (const session of [one, two]) resolution.launch(session, a);
  expect(lines).toEqual([
    `context injected: server=a session=${one.id.slice(0, 8)} workspace=w trust=direct`,
    `context injected: server=a session=${two.id.slice(0, 8)} workspace=(none) trust=sandboxed`,
  ]);
  await sessions.close();
});
