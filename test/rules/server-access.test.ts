import { describe, expect, test } from 'vitest';
import { removalOf, type ServerTrust, type SessionInWorkspace } from '../../src/rules/server-access.ts';

const both = ['direct', 'sandboxed'] as const;
const server = (facts: Partial<ServerTrust> = {}): ServerTrust => ({ name: 'notes', trust: both, ...facts });
const session = (facts: Partial<SessionInWorkspace> = {}): SessionInWorkspace => ({
  trustLevel: 'direct',
  servers: undefined,
  workspace: undefined,
  ...facts,
});

test('a session without bounds of its own may use every server of its trust level', () => {
  expect(removalOf(server(), session())).toBeUndefined();
  expect(removalOf(server({ trust: ['sandboxed'] }), session({ trustLevel: 'sandboxed' }))).toBeUndefined();
});

test('P6: a sandboxed session never has a direct-only server, whatever else names it', () => {
  const sandboxed = session({
    trustLevel: 'sandboxed',
    servers: ['notes'],
    workspace: { id: 'w', servers: ['notes'] },
  });
  expect(removalOf(server({ trust: ['direct'] }), sandboxed)).toEqual({
    rule: 'servers.notes.trust',
    reason: 'it is for direct sessions only; this session is sandboxed',
  });
  expect(removalOf(server({ trust: [] }), session())?.rule).toBe('servers.notes.trust');
});

describe('P7: what a workspace allows', () => {
  test.each([
    ['all', undefined],
    ['none', 'workspaces.w.capabilities.servers'],
    [['notes', 'search'], undefined],
    [['search'], 'workspaces.w.capabilities.servers'],
    [[], 'workspaces.w.capabilities.servers'],
    // A workspace that a reload took away allows nothing.
    [undefined, 'workspaces.w'],
  ] as const)('%j', (servers, rule) => {
    const facts = session({ workspace: { id: 'w', servers } as SessionInWorkspace['workspace'] });
    expect(removalOf(server(), facts)?.rule).toBe(rule);
  });

  test.each(['all', 'none'])('a server that is called "%s" is not meant by the word', (name) => {
    expect(removalOf(server({ name }), session({ workspace: { id: 'w', servers: 'none' } }))).toBeDefined();
    expect(removalOf(server({ name: 'al' }), session({ workspace: { id: 'w', servers: ['all'] } }))).toBeDefined();
  });
});

test('P14: a list of its own, of which an empty one means none', () => {
  expect(removalOf(server(), session({ servers: ['notes'] }))).toBeUndefined();
  expect(removalOf(server(), session({ servers: ['note', 'notes2'] }))?.rule).toBe('session.servers');
  expect(removalOf(server(), session({ servers: [] }))?.rule).toBe('session.servers');
});

test('P2: the first step that removes a server is the one that is named', () => {
  const narrow = session({ trustLevel: 'sandboxed', servers: [], workspace: { id: 'w', servers: 'none' } });
  expect(removalOf(server({ trust: ['direct'] }), narrow)?.rule).toBe('servers.notes.trust');
  expect(removalOf(server(), narrow)?.rule).toBe('workspaces.w.capabilities.servers');
});
