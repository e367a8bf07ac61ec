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

const rounds = proof ? 200 : 12;

const build = ((_sdk, given) => {
  const server = withSessions(new McpServer({ name: 'tenants', version: '1' }), given);
  server.registerTool(
    'see',
    { inputSchema: z.object({ pause: z.number(), mark: z.string() }) },
    async ({ pause, mark }) => {
      const before = currentSession();
      const cached = await cacheResult(() => ({ by: mark }), { ttlSeconds: 60, per: 'workspace' });
      const { value } = await before.state.update('seen', (seen) => [
        ...new Set([...((seen as string[]) ?? []), mark]),
      ]);
      await delay(pause);
      const { userId, agentId, workspaceId, permissions, trustLevel, sessionId, record } = currentSession();
      const seen = { userId, agentId, workspaceId, permissions, trustLevel };
      const isSame = before === currentSession();
      const text = JSON.stringify({ seen, marks: value, isSame, sessionId, cached, created: record?.createdAt });
      return { content: [{ type: 'text', text }] };
    },
  );
  return server;
}) as typeof buildServer;

interface Seen {
  readonly seen: Credential;
  readonly marks: string[];
  readonly isSame: boolean;
  readonly sessionId: string;
  readonly cached: { readonly by: string };
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
    const calls = Array.from({ length: rounds * credentials.length }, async (_unused, n) => {
      const i = (n * 7) % credentials.length;
      const mark = `${credentials[i]?.userId}/${i}`;
      const { value, text } = (await callers[i]?.call('see', { pause: (n * 5) % 3, mark })) ?? {
        value: undefined,
        text: '',
      };
      return { i, mark, text, value: value as Seen };
    });
    const ids = new Map<number, string>();
    for (const { i, mark, value, text } of await Promise.all(calls)) {
      expect(value?.seen, text).toEqual(credentials[i]);
      expect(value.marks).toEqual([mark]);
      expect(value.isSame).toBe(true);
      expect(ids.get(i) ?? value.sessionId).toBe(value.sessionId);
      ids.set(i, value.sessionId);
      // Sessions share a cached result only within a workspace and with equal rights.
      const maker = credentials[Number(value.cached.by.split('/')[1])];
      const { workspaceId, trustLevel, permissions } = value.seen;
      expect(maker).toMatchObject({ workspaceId, trustLevel, permissions });
    }
    expect(new Set(ids.values()).size).toBe(credentials.length);
  });
});
