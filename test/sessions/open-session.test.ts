import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import { isAmbitError } from '../../src/errors.ts';
import type { AccessCeiling } from '../../src/identity/principal.ts';
import { type OpeningBounds, openSession } from '../../src/sessions/open-session.ts';
import type { SessionDraft } from '../../src/sessions/session.ts';
import { createSessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';

async function opener(text: string): Promise<(draft: SessionDraft, bounds?: OpeningBounds) => Promise<string>> {
  const { config } = await loadConfig({ text: `version: 1\n${text}`, file: '/etc/ambit/ambit.yaml' });
  const sessions = createSessions({ store: openMemoryStore(), bounds: config.sessions });
  return async (draft, bounds) => {
    try {
      return (await openSession(sessions, config, draft, bounds)).session.trustLevel;
    } catch (error) {
      if (isAmbitError(error)) return error.code;
      throw error;
    }
  };
}

const workspaces = 'workspaces: { free: { path: /srv/free }, bound: { path: /srv/bound, trust: sandboxed } }';

describe('P6: trust of a session', () => {
  test('is sandboxed when nothing is said', async () => {
    const open = await opener('');
    expect(await open({})).toBe('sandboxed');
  });

  test('is refused above the bounds of the workspace, not lowered', async () => {
    const open = await opener(workspaces);
    expect(await open({ workspaceId: 'free', trustLevel: 'direct' })).toBe('direct');
    expect(await open({ workspaceId: 'bound', trustLevel: 'direct' })).toBe('TRUST_REQUIRED');
    expect(await open({ workspaceId: 'bound', trustLevel: 'sandboxed' })).toBe('sandboxed');
  });

  test('has several spellings, and an unknown one is refused as such', async () => {
    const open = await opener(workspaces);
    const openAs = (trustLevel: unknown, workspaceId = 'free') =>
      open({ workspaceId, trustLevel: trustLevel as never });
    expect(await openAs('trusted')).toBe('direct');
    expect(await openAs('untrusted')).toBe('sandboxed');
    expect(await openAs('trusted', 'bound')).toBe('TRUST_REQUIRED');
    for (const unknown of ['root', 'Direct', '', 'constructor', null, 1, ['direct']]) {
      expect(await openAs(unknown)).toBe('REQUEST_INVALID');
    }
  });

  test('by default is lowered to the bounds', async () => {
    const open = await opener(`sessions: { defaultTrust: direct }\n${workspaces}`);
    expect(await open({ workspaceId: 'free' })).toBe('direct');
    expect(await open({ workspaceId: 'bound' })).toBe('sandboxed');
  });

  test('never is direct where the operator says so', async () => {
    const open = await opener('sessions: { defaultTrust: direct, allowDirect: never }');
    expect(await open({})).toBe('sandboxed');
    expect(await open({ trustLevel: 'direct' })).toBe('TRUST_REQUIRED');
  });
});

describe('the credential that a session is opened with bounds it', () => {
  const unbounded: AccessCeiling = { trustLevel: 'direct', workspaces: null, scopes: null };
  const direct = { workspaceId: 'free', trustLevel: 'direct' } as const;

  test('trust: above that of the credential is refused, and the default is lowered to it', async () => {
    const open = await opener(`sessions: { defaultTrust: direct }\n${workspaces}`);
    expect(await open(direct, { ceiling: unbounded })).toBe('direct');
    const sandboxed: OpeningBounds = { ceiling: { ...unbounded, trustLevel: 'sandboxed' } };
    expect(await open(direct, sandboxed)).toBe('TRUST_REQUIRED');
    expect(await open({ workspaceId: 'free' }, sandboxed)).toBe('sandboxed');
  });

  test('trust: direct only in the workspaces that the credential is direct in, and never without a workspace', async () => {
    const open = await opener(workspaces);
    expect(await open(direct, { ceiling: { ...unbounded, directIn: ['free'] } })).toBe('direct');
    expect(await open(direct, { ceiling: { ...unbounded, directIn: ['bound'] } })).toBe('TRUST_REQUIRED');
    expect(await open({ trustLevel: 'direct' }, { ceiling: { ...unbounded, directIn: ['free'] } })).toBe(
      'TRUST_REQUIRED',
    );
  });

  test('workspaces: one beyond the credential looks like one that does not exist, and one must be named', async () => {
    const open = await opener(workspaces);
    const ceiling: AccessCeiling = { ...unbounded, workspaces: ['bound'] };
    expect(await open({ workspaceId: 'bound' }, { ceiling })).toBe('sandboxed');
    expect(await open({ workspaceId: 'free' }, { ceiling })).toBe('WORKSPACE_NOT_FOUND');
    expect(await open({}, { ceiling })).toBe('WORKSPACE_NOT_FOUND');
  });

  test('permissions: one that the credential does not have is refused', async () => {
    const open = await opener('');
    const ceiling: AccessCeiling = { ...unbounded, scopes: ['notes:read'] };
    expect(await open({ permissions: ['notes:read'] }, { ceiling })).toBe('sandboxed');
    expect(await open({ permissions: ['notes:read', 'notes:write'] }, { ceiling })).toBe('REQUEST_INVALID');
  });

  test.each([
    ['auto', true, 'TRUST_REQUIRED'],
    ['auto', false, 'direct'],
    ['always', true, 'direct'],
    ['never', false, 'TRUST_REQUIRED'],
  ])('allowDirect: %s, with several users: %s, answers direct with %s', async (allowDirect, several, expected) => {
    const open = await opener(`sessions: { allowDirect: ${allowDirect} }\n${workspaces}`);
    expect(await open(direct, { hasSeveralUsers: async () => several })).toBe(expected);
  });
});

describe('P8: input is validated', () => {
  test.each([
    [{ workspaceId: 'nowhere' }, 'WORKSPACE_NOT_FOUND'],
    [{ workspaceId: '__proto__' }, 'WORKSPACE_NOT_FOUND'],
    [{ workspaceId: 'constructor' }, 'WORKSPACE_NOT_FOUND'],
    [{ name: 'has space' }, 'REQUEST_INVALID'],
    [{ name: 'line\nbreak' }, 'REQUEST_INVALID'],
    [{ name: 'x'.repeat(101) }, 'REQUEST_INVALID'],
    [{ name: '' }, 'REQUEST_INVALID'],
    [{ userId: '../root' }, 'REQUEST_INVALID'],
    [{ agentId: 'a\u0000b' }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 0 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 1.5 }, 'REQUEST_INVALID'],
    [{ ttlSeconds: 86_401 }, 'REQUEST_INVALID'],
    [{ name: 'task#049', userId: 'ada@example.com', agentId: 'coder-1', ttlSeconds: 1 }, 'sandboxed'],
  ] satisfies [SessionDraft, string][])('%j gives %s', async (draft, expected) => {
    const open = await opener(workspaces);
    expect(await open(draft)).toBe(expected);
  });
});
