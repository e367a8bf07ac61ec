import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import {
  isSessionError,
  readContext,
  requirePermission,
  requireTrust,
  resolveWorkspace,
  type SessionContext,
  toErrorResult,
} from '../../../src/public/sdk/index.ts';
import { createClaims, createMeta, createSigner } from './signer.ts';

const signer = await createSigner();

async function verified(asked: Parameters<typeof createClaims>[0] = {}): Promise<SessionContext> {
  const claims = createClaims(asked);
  const meta = createMeta(await signer.sign(claims), claims);
  return readContext({ meta, name: 'delete_note' }, { env: {}, keys: signer.jwks });
}

const inherited = (env: Record<string, string>) => readContext(undefined, { env });
const refused = () => readContext({ meta: { 'ambit/context': { token: 'x' } } }, { env: {}, keys: signer.jwks });
const alone = () => inherited({});

describe('the environment', () => {
  test('P11: says what the orchestrator set, as inherited', async () => {
    const env = {
      AMBIT_SESSION_ID: 's-1',
      AMBIT_WORKSPACE_ID: '',
      AMBIT_TRUST_LEVEL: 'sandboxed',
      AMBIT_USER_ID: 'ada',
      AMBIT_AGENT_ID: 'coder',
      AMBIT_WORKSPACE_PATH: '/srv/garden',
    };
    expect(await inherited(env)).toEqual({
      status: 'inherited',
      sessionId: 's-1',
      correlationId: undefined,
      userId: 'ada',
      agentId: 'coder',
      workspaceId: undefined,
      workspacePath: '/srv/garden',
      trustLevel: 'sandboxed',
      permissions: [],
      issuedAt: undefined,
      expiresAt: undefined,
      reason: undefined,
      code: undefined,
    });
  });

  test('P9: without Ambit it is absent, and says so', async () => {
    expect(await alone()).toMatchObject({
      status: 'absent',
      code: 'NO_CONTEXT',
      reason: expect.stringMatching(/without Ambit/),
    });
    const shared = await inherited({ AMBIT_JWKS: JSON.stringify(signer.jwks) });
    expect(shared).toMatchObject({
      status: 'absent',
      code: 'NO_CONTEXT',
      reason: expect.stringMatching(/not belong to a single session/),
    });
  });

  test.each(['root', 'DIRECT', 'direct ', ''])('a trust level of %j is unknown, never direct', async (level) => {
    const context = await inherited({ AMBIT_SESSION_ID: 's', AMBIT_TRUST_LEVEL: level });
    expect(context).toMatchObject({ status: 'inherited', trustLevel: undefined });
    expect(() => requireTrust('sandboxed', context)).toThrow(/TRUST_REQUIRED/);
  });

  test('variables that a program sets later are ignored', async () => {
    const script = `
      const { currentSession } = await import('./dist/public/sdk/index.js');
      process.env.AMBIT_TRUST_LEVEL = 'direct';
      process.env.AMBIT_SESSION_ID = 'forged';
      console.log(JSON.stringify([currentSession().status, currentSession().trustLevel]));`;
    const env = { ...process.env, AMBIT_SESSION_ID: '', AMBIT_TRUST_LEVEL: 'sandboxed' };
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env });
    expect(JSON.parse(stdout)).toEqual(['inherited', 'sandboxed']);
  });
});

describe('trust', () => {
  test('P11: direct is enough for both levels, sandboxed only for itself', async () => {
    const direct = await verified({ trust: 'direct' });
    const sandboxed = await verified({ trust: 'sandboxed' });
    expect(() => requireTrust('direct', direct)).not.toThrow();
    expect(() => requireTrust('sandboxed', direct)).not.toThrow();
    expect(() => requireTrust('sandboxed', sandboxed)).not.toThrow();
    expect(() => requireTrust('direct', sandboxed)).toThrow(/^TRUST_REQUIRED: .*it is sandboxed.*ask the person/);
  });

  test('inherited direct is enough, absent never, and the refusal says why', async () => {
    const started = await inherited({ AMBIT_SESSION_ID: 's', AMBIT_TRUST_LEVEL: 'direct' });
    expect(() => requireTrust('direct', started)).not.toThrow();
    for (const level of ['direct', 'sandboxed'] as const) {
      const [none, bad] = [await alone(), await refused()];
      expect(() => requireTrust(level, none)).toThrow(/TRUST_REQUIRED: .*did not come through Ambit/);
      expect(() => requireTrust(level, bad)).toThrow(/TRUST_REQUIRED: .*not a compact JWS/);
    }
  });

  test('an unknown trust level throws a TypeError', async () => {
    const direct = await verified();
    expect(() => requireTrust('any' as 'direct', direct)).toThrow(TypeError);
  });
});

describe('permissions', () => {
  test('P11: a permission has to match exactly', async () => {
    const context = await verified({ permissions: ['notes:read', '*', 'notes:*'] });
    expect(() => requirePermission('notes:read', context)).not.toThrow();
    expect(() => requirePermission('notes:write', context)).toThrow(/PERMISSION_DENIED: .*"notes:write".*--permission/);
    expect(() => requirePermission('length', context)).toThrow(/PERMISSION_DENIED/);
  });

  test('the environment grants none', async () => {
    const context = await inherited({ AMBIT_SESSION_ID: 's', AMBIT_TRUST_LEVEL: 'direct' });
    expect(() => requirePermission('notes:read', context)).toThrow(/PERMISSION_DENIED/);
  });

  test('a refusal becomes an error result with its code', async () => {
    try {
      requirePermission('notes:write', await alone());
      expect.unreachable();
    } catch (error) {
      if (!isSessionError(error)) throw error;
      expect(toErrorResult(error)).toEqual({
        isError: true,
        content: [{ type: 'text', text: error.message }],
        _meta: { 'ambit/error': { code: 'PERMISSION_DENIED', hint: error.hint } },
      });
    }
  });
});

describe('the workspace', () => {
  test('O3: the argument, else the session, else an error that says how to supply one', async () => {
    const context = await verified();
    const lines: string[] = [];
    const log = { info: (line: string) => void lines.push(line) };
    expect(resolveWorkspace({ context, log })).toEqual({ workspace: 'garden', from: 'session', path: '/srv/garden' });
    expect(resolveWorkspace({ context, log, explicit: '' })).toMatchObject({ workspace: 'garden', from: 'session' });
    expect(resolveWorkspace({ context, log, explicit: 'garden' })).toEqual({
      workspace: 'garden',
      from: 'argument',
      path: '/srv/garden',
    });
    expect(lines).toEqual([]);
    expect(resolveWorkspace({ context, log, explicit: 'kitchen', allowed: ['kitchen'] })).toEqual({
      workspace: 'kitchen',
      from: 'argument',
      path: undefined,
    });
    expect(lines).toEqual([expect.stringMatching(/session=session- .*"kitchen".*"garden"/)]);
    const homeless = await verified({ workspace: null });
    expect(() => resolveWorkspace({ context: homeless, log })).toThrow(/WORKSPACE_REQUIRED: .*argument "workspace"/);
  });

  test('O3: an argument never widens: without a list only the session’s own, and a decision has to be true', async () => {
    const context = await verified();
    for (const explicit of ['kitchen', '../garden', 'garden/', 'GARDEN', '__proto__', 'x'.repeat(5000)]) {
      expect(() => resolveWorkspace({ context, explicit })).toThrow(/WORKSPACE_NOT_FOUND: .*Leave "workspace" out/);
      expect(() => resolveWorkspace({ context, explicit, allowed: ['attic'] })).toThrow(/WORKSPACE_NOT_FOUND/);
    }
    const allowed = (() => 'yes') as unknown as () => boolean;
    expect(() => resolveWorkspace({ context, explicit: 'kitchen', allowed })).toThrow(/WORKSPACE_NOT_FOUND/);
    const seen = (workspace: string, by: SessionContext) => workspace === 'kitchen' && by.userId === 'ada';
    expect(resolveWorkspace({ context, explicit: 'kitchen', allowed: seen, log: { info() {} } }).workspace).toBe(
      'kitchen',
    );
  });

  test('O5: never from the working directory, from the environment only as inherited', async () => {
    const context = await inherited({
      AMBIT_SESSION_ID: 's',
      AMBIT_WORKSPACE_ID: 'garden',
      AMBIT_WORKSPACE_PATH: '/g',
    });
    expect(resolveWorkspace({ context })).toEqual({ workspace: 'garden', from: 'session', path: '/g' });
    const none = await inherited({ PWD: '/srv/garden', AMBIT_SESSION_ID: 's', WORKSPACE_ID: 'garden' });
    expect(() => resolveWorkspace({ context: none })).toThrow(/WORKSPACE_REQUIRED/);
  });

  test('with a refused context no workspace is chosen, whatever is allowed', async () => {
    const context = await refused();
    expect(() => resolveWorkspace({ context, explicit: 'kitchen', allowed: ['kitchen'] })).toThrow(/CONTEXT_REFUSED/);
    const standalone = await alone();
    expect(resolveWorkspace({ context: standalone, explicit: 'kitchen', allowed: ['kitchen'] }).workspace).toBe(
      'kitchen',
    );
  });
});
