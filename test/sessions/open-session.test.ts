import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { isAmbitError } from '../../src/errors.ts';
import { openSession } from '../../src/sessions/open-session.ts';
import type { SessionDraft } from '../../src/sessions/session.ts';
import { createSessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';

async function opener(text: string): Promise<(draft: SessionDraft) => Promise<string>> {
  const { config } = await loadConfig({ text: `version: 1\n${text}`, file: '/etc/ambit/ambit.yaml' });
  const sessions = createSessions({ store: openMemoryStore(), bounds: config.sessions });
  return async (draft) => {
    try {
      return (await openSession(sessions, config, draft)).session.trustLevel;
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

describe('P8: what enters is validated', () => {
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
