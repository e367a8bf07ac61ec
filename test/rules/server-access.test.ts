import { describe, expect, test } from 'vitest';
import { findAccessDenial, type ServerTrust, type SessionInWorkspace } from '../../src/upstreams/access/resolution.ts';

const both = ['direct', 'sandboxed'] as const;
const createServer = (facts: Partial<ServerTrust> = {}): ServerTrust => ({ name: 'notes', trust: both, ...facts });
const createSession = (facts: Partial<SessionInWorkspace> = {}): SessionInWorkspace => ({
  trustLevel: 'direct',
  servers: undefined,
  workspace: undefined,
  ...facts,
});

test('an unlimited session may use every server of its trust level', () => {
  expect(findAccessDenial(createServer(), createSession())).toBeUndefined();
  expect(
    findAccessDenial(createServer({ trust: ['sandboxed'] }), createSession({ trustLevel: 'sandboxed' })),
  ).toBeUndefined();
});

test('P6: a sandboxed session never gets a direct-only server, whatever else allows it', () => {
  const sandboxed = createSession({
    trustLevel: 'sandboxed',
    servers: ['notes'],
    workspace: { id: 'w', servers: ['notes'] },
  });
  expect(findAccessDenial(createServer({ trust: ['direct'] }), sandboxed)).toEqual({
    rule: 'servers.notes.trust',
    reason: 'it is for direct sessions only; this session is sandboxed',
  });
  expect(findAccessDenial(createServer({ trust: [] }), createSession())?.rule).toBe('servers.notes.trust');
});

describe('P7: servers of a workspace', () => {
  test.each([
    ['all', undefined],
    ['none', 'workspaces.w.capabilities.servers'],
    [['notes', 'search'], undefined],
    [['search'], 'workspaces.w.capabilities.servers'],
    [[], 'workspaces.w.capabilities.servers'],
    // A workspace that was removed by a reload allows nothing.
    [undefined, 'workspaces.w'],
  ] as const)('%j', (servers, rule) => {
    const facts = createSession({ workspace: { id: 'w', servers } as SessionInWorkspace['workspace'] });
    expect(findAccessDenial(createServer(), facts)?.rule).toBe(rule);
  });

  test.each(['all', 'none'])('a server named "%s" is not confused with the keyword', (name) => {
    expect(
      findAccessDenial(createServer({ name }), createSession({ workspace: { id: 'w', servers: 'none' } })),
    ).toBeDefined();
    expect(
      findAccessDenial(createServer({ name: 'al' }), createSession({ workspace: { id: 'w', servers: ['all'] } })),
    ).toBeDefined();
  });
});

test('P14: a session may be limited to servers; an empty list means none', () => {
  expect(findAccessDenial(createServer(), createSession({ servers: ['notes'] }))).toBeUndefined();
  expect(findAccessDenial(createServer(), createSession({ servers: ['note', 'notes2'] }))?.rule).toBe(
    'session.servers',
  );
  expect(findAccessDenial(createServer(), createSession({ servers: [] }))?.rule).toBe('session.servers');
});

test('P2: the first check that denies a server is reported', () => {
  const narrow = createSession({ trustLevel: 'sandboxed', servers: [], workspace: { id: 'w', servers: 'none' } });
  expect(findAccessDenial(createServer({ trust: ['direct'] }), narrow)?.rule).toBe('servers.notes.trust');
  expect(findAccessDenial(createServer(), narrow)?.rule).toBe('workspaces.w.capabilities.servers');
});
