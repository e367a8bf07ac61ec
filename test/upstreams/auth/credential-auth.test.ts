import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { ServerLaunch } from '../../../src/upstreams/access/launch.ts';
import { createCredentialAuth } from '../../../src/upstreams/auth/credential-auth.ts';
import { createTarget } from '../../../src/upstreams/auth/credential-target.ts';
import { openCredentials } from '../../../src/upstreams/auth/credentials.ts';
import { openSealingKeys } from '../../../src/upstreams/auth/sealing-key.ts';
import type { HttpServer, StdioServer } from '../../../src/upstreams/definition.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'ambit-carry-'));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const session = (userId: string) => ({ id: 's', userId }) as Session;
const http = { kind: 'http', name: 'search' } as HttpServer;
const stdio = (scope: StdioServer['scope']) => ({ kind: 'stdio', name: 'notes', scope }) as StdioServer;
const launch = {
  env: { A: 'a', TOKEN: 'configured' },
  cwd: '/',
  provenance: { A: 'configured' },
} as unknown as ServerLaunch;

test('anonymous users, unapproved servers and processes of several users get no credentials', async () => {
  const store = openMemoryStore();
  const credentials = await openCredentials(store, openSealingKeys({ dataDir, env: {} }));
  for (const user of ['ada', 'anonymous']) {
    await credentials.set(createTarget(user, 'search', 'header', 'X-Key'), user);
    await credentials.set(createTarget(user, 'notes', 'env', 'TOKEN'), user);
  }
  let approved = true;
  const auth = createCredentialAuth({ credentials, prefixes: () => ['AMBIT'], isApproved: () => approved });
  expect(auth.headers(session('ada'), http)).toEqual({ 'x-key': 'ada' });
  for (const scope of ['call', 'session', 'user'] as const) {
    const given = auth.addTo(launch, session('ada'), stdio(scope));
    expect(given).toMatchObject({
      env: { A: 'a', TOKEN: 'ada' },
      provenance: { A: 'configured', TOKEN: 'credential' },
    });
    const named = auth.describe(launch, session('ada'), stdio(scope));
    expect([named.env, named.provenance['TOKEN']]).toEqual([{ A: 'a' }, 'credential']);
  }
  expect(launch.env).toEqual({ A: 'a', TOKEN: 'configured' });
  function givesNothing(userId: string, scope: StdioServer['scope'] = 'session'): void {
    expect(auth.addTo(launch, session(userId), stdio(scope))).toBe(launch);
    expect(auth.describe(launch, session(userId), stdio(scope))).toBe(launch);
    expect(auth.hasAny(session(userId), stdio(scope))).toBe(false);
    expect(auth.revision(session(userId), stdio(scope))).toBe('');
  }
  givesNothing('anonymous');
  givesNothing('eve');
  givesNothing('ada', 'workspace');
  givesNothing('ada', 'shared');
  for (const user of ['anonymous', 'eve']) expect(auth.headers(session(user), http)).toEqual({});
  approved = false;
  givesNothing('ada');
  expect(auth.headers(session('ada'), http)).toEqual({});
  credentials.close();
  await store.close();
});
