import { setTimeout as delay } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { currentSession } from '../../../src/public/sdk/index.ts';
import { cacheResult, createServerSessions, withSessions } from '../../../src/public/server/index.ts';
import { proof } from '../../proof.ts';
import type { buildServer } from './build-server.ts';
import { type Caller, connectHttp, serveSessions, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** What a credential says, and what a handler must see. */
interface Credential {
  readonly userId: string;
  readonly agentId: string;
  readonly workspaceId: string;
  readonly permissions: readonly string[];
  readonly trustLevel: 'direct' | 'sandboxed';
}

/** Two tenants in every combination of user, agent, workspace and limits. */
const credentials: Credential[] = ['ada', 'bob'].flatMap((userId) =>
  ['coder', 'reviewer'].flatMap((agentId) =>
    ['w1', 'w2'].flatMap((workspaceId) =>
      (['direct', 'sandboxed'] as const).map((trustLevel) => {
        const permissions = trustLevel === 'direct' ? ['notes:write'] : [];
        return { userId, agentId, workspaceId, permissions, trustLevel };
      }),
    ),
  ),
);

/** Calls of each credential at the same time, and how often they come. */
const atOnce = 12;
const rounds = proof ? 20 : 1;

const build = ((_sdk, given) => {
  const server = withSessions(new McpServer({ name: 'tenants', version: '1' }), given);
  const readFacts = (): Credential => {
    const { userId, agentId, workspaceId, permissions, trustLevel } = currentSession();
    return { userId, agentId, workspaceId, permissions, trustLevel } as Credential;
  };
  server.registerTool('see', { inputSchema: z.object({ pause: z.number() }) }, async ({ pause }) => {
    const before = currentSession();
    // The arguments are the same for all callers, so only the session can tell results apart.
    const cached = await cacheResult(readFacts, { ttlSeconds: 60, per: 'workspace' });
    const own = JSON.stringify(readFacts());
    const { value } = await before.state.update('seen', (seen) => [...new Set([...((seen as string[]) ?? []), own])]);
    await delay(pause);
    const isSame = before === currentSession();
    const text = JSON.stringify({ seen: readFacts(), stored: value, isSame, sessionId: before.sessionId, cached });
    return { content: [{ type: 'text', text }] };
  });
  return server;
}) as typeof buildServer;

interface Seen {
  readonly seen: Credential;
  /** What handlers of this session have written into its state. */
  readonly stored: string[];
  readonly isSame: boolean;
  readonly sessionId: string;
  readonly cached: Credential;
}

describe.each([
  ['modern, stateless', 'modern', serveStateless],
  ['handshake, stateless', 'handshake', serveStateless],
  ['handshake, transport sessions', 'handshake', serveSessions],
] as const)('two tenants under load: %s', (_, era, serveWith) => {
  test('L3, S2: no handler ever sees the record, state or cached result of another credential', async () => {
    const sessions = createServerSessions({
      identify: (key) => credentials[Number(key.slice(4))],
      workspaces: ['/srv/w1', '/srv/w2'],
      log: { info() {}, warn() {} },
      context: { env: {} },
    });
    open.push(sessions);
    const fetch = serveWith === serveSessions ? serveSessions(sessions, 'v2', build) : serveStateless(sessions, build);
    const callers: Caller[] = await Promise.all(
      credentials.map((_credential, i) => connectHttp(fetch, era, undefined, { authorization: `Bearer key-${i}` })),
    );
    open.push(...callers);
    const ids = new Map<number, string>();
    for (let round = 0; round < rounds; round++) await callAtOnce(callers, ids);
    expect(new Set(ids.values()).size).toBe(credentials.length);
  });
});

/** Makes calls of all credentials at the same time, and checks what their handlers saw. */
async function callAtOnce(callers: readonly Caller[], ids: Map<number, string>): Promise<void> {
  const calls = Array.from({ length: atOnce * credentials.length }, async (_unused, n) => {
    const i = (n * 7) % credentials.length;
    const answer = await callers[i]?.call('see', { pause: n % 3 });
    return { i, text: answer?.text, value: answer?.value as Seen };
  });
  for (const { i, value, text } of await Promise.all(calls)) {
    expect(value?.seen, text).toEqual(credentials[i]);
    expect(value.stored).toEqual([JSON.stringify(credentials[i])]);
    expect(value.isSame).toBe(true);
    expect(ids.get(i) ?? value.sessionId).toBe(value.sessionId);
    ids.set(i, value.sessionId);
    // Sessions share a cached result only within a workspace and with equal rights.
    const { workspaceId, trustLevel, permissions } = value.seen;
    expect(value.cached).toMatchObject({ workspaceId, trustLevel, permissions });
  }
}
