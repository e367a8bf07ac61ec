import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RawClient } from '../../gateway/raw-client.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { repository } from '../../structure/source-files.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, open, use, close } = createSandboxFolder('context');
const node = (path: string) => ({ command: process.execPath, args: [join(repository, 'test', path)] });
const scopes = ['session', 'call'] as const;

beforeAll(async () => {
  mkdirSync(join(folder, 'garden'));
  const servers = Object.fromEntries(
    scopes.flatMap((scope) => [
      [`recorder-${scope}`, { ...node('fixtures/recorder/stdio.js'), scope, env: { CUSTOM: 'configured' } }],
      [`who-${scope}`, { ...node('public/sdk/fixtures/stdio-v2.js'), scope }],
    ]),
  );
  await open({
    context: { envPrefixes: ['AMBIT', 'PARACHUTE'] },
    servers,
    workspaces: { garden: { path: join(folder, 'garden') } },
  });
});

afterAll(close);

const levels = ['sandboxed', 'direct'] as const;
async function inBoth<Told>(server: string, ask: (client: RawClient, id: string) => Promise<Told>): Promise<Told[]> {
  const told: Told[] = [];
  for (const trustLevel of levels) {
    const draft = { userId: 'ada', agentId: 'a1', workspaceId: 'garden', permissions: ['notes:write'], trustLevel };
    const { id, client } = await use(server, draft);
    told.push(await ask(client, id));
  }
  return told;
}

/** Removes the values that must differ between two sessions; everything else is compared as it is. */
function alike(value: unknown, id: string, trustLevel: string): unknown {
  const text = JSON.stringify(value).replaceAll(id, 'SESSION').replaceAll(`"${trustLevel}"`, '"TRUST"');
  return JSON.parse(text);
}

describe.skipIf(!hasBwrap()).each(scopes)('P5: a server in a sandbox, at scope %s,', (scope) => {
  test('has the same context in its environment as in a direct session', async () => {
    const [inside, outside] = await inBoth(`recorder-${scope}`, async (client, id) => {
      const env = JSON.parse(await client.call('environment')) as Record<string, string>;
      const told = Object.entries(env).filter(([name]) => /^(?:AMBIT|PARACHUTE|CUSTOM)/.test(name));
      const keys = told.filter(([name]) => name.endsWith('_JWKS')).map(([name, set]) => [name, JSON.parse(set).keys]);
      // Both kinds of keys are there, each under the path that the process sees.
      const files = told.filter(([name]) => name.endsWith('_KEY_FILE'));
      expect(files.map(([, path]) => path)).toEqual(files.map(() => expect.stringMatching(/context-key\.json$/)));
      expect(files).toHaveLength(2);
      const rest = Object.fromEntries(told.filter(([name]) => !/_(?:JWKS|KEY_FILE)$/.test(name)));
      return alike({ ...rest, keys }, id, rest['AMBIT_TRUST_LEVEL'] as string);
    });
    expect(inside).toEqual(outside);
    expect(inside).toMatchObject({
      AMBIT_SESSION_ID: 'SESSION',
      PARACHUTE_SESSION_ID: 'SESSION',
      AMBIT_TRUST_LEVEL: 'TRUST',
      AMBIT_WORKSPACE_PATH: join(folder, 'garden'),
      CUSTOM: 'configured',
    });
  });

  test('gets the same context with requests, and a token of the same shape', async () => {
    const [inside, outside] = await inBoth(`recorder-${scope}`, async (client, id) => {
      const raw = JSON.parse(await client.call('echo')) as {
        params: { _meta: Record<string, Record<string, unknown>> };
      };
      const { token, correlationId, issuedAt, expiresAt, ...context } = raw.params._meta['ambit/context'] ?? {};
      const { iat, exp, jti, txn, tctx, ...claims } = decodeJwt(String(token));
      expect([correlationId, issuedAt, expiresAt, iat, exp, jti, txn].every((each) => each !== undefined)).toBe(true);
      const { correlationId: same, ...facts } = tctx as Record<string, unknown>;
      expect(same).toBe(correlationId);
      return alike({ context, claims, facts }, id, String(context['trustLevel']));
    });
    expect(inside).toEqual(outside);
    expect(inside).toMatchObject({ context: { sessionId: 'SESSION', userId: 'ada', permissions: ['notes:write'] } });
  });

  test('verifies the token with the keys that it finds inside', async () => {
    const [inside, outside] = await inBoth(`who-${scope}`, async (client, id) => {
      const who = JSON.parse(await client.call('whoami')) as { status: string; trustLevel: string };
      return alike(who, id, who.trustLevel);
    });
    expect(inside).toMatchObject({ status: 'verified', sessionId: 'SESSION', userId: 'ada', agentId: 'a1' });
    expect(Object.keys(inside as object).sort()).toEqual(Object.keys(outside as object).sort());
  });
});
