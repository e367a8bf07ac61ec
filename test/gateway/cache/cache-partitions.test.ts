import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { credentialGateways } from '../../upstreams/auth/credential-gateway.ts';
import { startEchoUpstream } from '../echoing-upstream.ts';
import type { RawClient } from '../raw-client.ts';

const on = credentialGateways();
const tools = ['session', 'user', 'workspace'] as const;

interface Told {
  readonly sessionId: string;
  readonly userId: string;
  readonly workspaceId: string | null;
  readonly trustLevel: string;
  readonly permissions: readonly string[];
  readonly authorization: string | undefined;
  readonly args: unknown;
}

test('L7: two users, the same tool and arguments: never each other’s result, whoever shares what', async () => {
  let calls = 0;
  const upstream = on.closing(
    await startEchoUpstream((method, params, headers) => {
      const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      const listed = [...tools, 'private'].map((name) => ({ name, inputSchema: { type: 'object' } }));
      if (method === 'tools/list') return { ...hints, tools: listed };
      if (method !== 'tools/call') return undefined;
      calls++;
      const context = (params['_meta'] as Record<string, object>)['ambit/context'];
      const told = { ...context, authorization: headers.authorization, args: params['arguments'] };
      const more = params['name'] === 'private' ? { ttlMs: 60_000, cacheScope: 'private' } : {};
      return { resultType: 'complete', content: [{ type: 'text', text: JSON.stringify(told) }], ...more };
    }),
  );
  const cache = Object.fromEntries(
    [...tools, 'private'].map((tool) => [
      tool,
      { ttlSeconds: 600, per: tool === 'private' ? ('workspace' as const) : (tool as (typeof tools)[number]) },
    ]),
  );
  const workspaces = Object.fromEntries(
    ['w1', 'w2'].map((slug) => {
      mkdirSync(join(on.folder, slug));
      return [slug, { path: join(on.folder, slug) }];
    }),
  );
  const server = { url: upstream.url, era: 'modern' as const, context: 'full' as const, cache };
  const gateway = await on.start(
    { notes: { ...server, trust: ['direct', 'sandboxed'] }, mine: { ...server, trust: ['direct', 'sandboxed'] } },
    { workspaces, store: { kind: 'memory' } },
  );
  // At one of the servers, two of the users have credentials of their own.
  for (const userId of ['ada', 'eve']) {
    await gateway.credentials.set({ userId, server: 'mine', header: 'Authorization' }, `Bearer ${userId}`);
  }
  const clients: { readonly client: RawClient; readonly told: Omit<Told, 'authorization' | 'args'> }[] = [];
  for (const userId of ['ada', 'eve', 'tom']) {
    for (const workspaceId of [undefined, 'w1', 'w2']) {
      for (const [trustLevel, permissions] of [
        ['direct', []],
        ['direct', []],
        ['sandboxed', []],
        ['direct', ['p']],
      ] as const) {
        const draft = { userId, trustLevel, permissions, ...(workspaceId === undefined ? {} : { workspaceId }) };
        const client = await on.clientOf(gateway, draft);
        const { id: sessionId } = client.session;
        clients.push({
          client,
          told: { sessionId, userId, workspaceId: workspaceId ?? null, trustLevel, permissions },
        });
      }
    }
  }
  let asked = 0;
  const call = fc.record({
    who: fc.nat({ max: clients.length - 1 }),
    tool: fc.constantFrom(...tools, 'private' as const),
    server: fc.constantFrom('notes', 'mine'),
    args: fc.constantFrom({ a: 1 }, { a: 2 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 12 }), async (round) => {
      asked += round.length;
      await Promise.all(
        round.map(async ({ who, tool, server, args }) => {
          const { client, told } = clients[who] as (typeof clients)[number];
          const given = JSON.parse(await client.call(`${server}__${tool}`, args)) as Told;
          expect(given.args).toEqual(args);
          expect(given.workspaceId).toBe(told.workspaceId);
          expect(given.trustLevel).toBe(told.trustLevel);
          expect(given.permissions).toEqual(told.permissions);
          const hasOwn = server === 'mine' && told.userId !== 'tom';
          expect(given.authorization).toBe(hasOwn ? `Bearer ${told.userId}` : undefined);
          const alone = tool === 'session' || (tool !== 'user' && told.workspaceId === null);
          if (alone) expect(given.sessionId).toBe(told.sessionId);
          else if (tool !== 'workspace' || hasOwn) expect(given.userId).toBe(told.userId);
        }),
      );
    }),
    { numRuns: counts(40, 3000) },
  );
  // It would prove nothing if nothing had been given again.

  expect(calls).toBeLessThan(asked / 1.2);
});

test('L7: what a user is given while a call waits is in no result that others share', async () => {
  const waiting: (() => void)[] = [];
  const upstream = on.closing(
    await startEchoUpstream(async (method, params, { authorization = 'nobody' }) => {
      const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      if (method === 'tools/list') return { ...hints, tools: [{ name: 'read', inputSchema: { type: 'object' } }] };
      if (method !== 'tools/call') return undefined;
      const { slow } = params['arguments'] as { slow: boolean };
      if (slow && waiting.length === 0) await new Promise<void>((resolve) => waiting.push(resolve));
      return { resultType: 'complete', content: [{ type: 'text', text: authorization }] };
    }),
  );
  mkdirSync(join(on.folder, 'w'));
  const cache = { read: { ttlSeconds: 600, per: 'workspace' as const } };
  const gateway = await on.start(
    { notes: { url: upstream.url, era: 'modern' as const, cache } },
    { workspaces: { w: { path: join(on.folder, 'w') } } },
  );
  const [ada, eve] = [
    await on.clientOf(gateway, { userId: 'ada', workspaceId: 'w' }, 'notes'),
    await on.clientOf(gateway, { userId: 'eve', workspaceId: 'w' }, 'notes'),
  ];
  await eve.call('read', { slow: false });
  const first = ada.call('read', { slow: true });
  while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve));
  // She waits for what ada asked for, and is given something of her own meanwhile.
  const second = eve.call('read', { slow: true });
  await eve.call('read', { slow: false });
  await gateway.credentials.set({ userId: 'eve', server: 'notes', header: 'Authorization' }, 'Bearer eve');
  for (const release of waiting) release();
  expect(await first).toBe('nobody');
  expect(await second).toBe('Bearer eve');
  expect(await ada.call('read', { slow: true })).toBe('nobody');
});
