import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport, McpServer } from '@modelcontextprotocol/server';
import { afterEach, expect, test } from 'vitest';
import {
  cacheResult,
  createServerSessions,
  type ServerSessionsOptions,
  withSessions,
} from '../../../src/public/server/index.ts';
import { buildServer } from './build-server.ts';
import { connectPipe } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}) {
  const sessions = createServerSessions({ log: { info() {}, warn() {} }, ...options, context: { env: {} } });
  open.push(sessions);
  return sessions;
}

test('G8: a block that the transport could not deliver is sent again', async () => {
  const server = buildServer('v2', sessionsWith({ governance: {} }));
  const [near, far] = InMemoryTransport.createLinkedPair();
  const send = near.send.bind(near);
  let isGone = false;
  near.send = async (...given) => {
    if (!isGone) return send(...given);
    // As the SDK does it when the stream of a request is gone.
    near.onerror?.(new Error('undeliverable'));
    onLost();
  };
  let onLost = () => {};
  const lost = new Promise<void>((resolve) => {
    onLost = resolve;
  });
  await server.connect(near);
  const client = new Client({ name: 'c', version: '1' });
  await client.connect(far);
  isGone = true;
  void client.callTool({ name: 'whoami', arguments: {} }).catch(() => {});
  await lost;
  isGone = false;
  const { content } = await client.callTool({ name: 'whoami', arguments: {} });
  expect(content).toHaveLength(2);
  await client.close();
});

test('L11: a cancelled call whose workspaces never come holds no place', async () => {
  let isHanging = true;
  let onAsked = () => {};
  const sessions = sessionsWith({
    quotas: { session: { concurrentCalls: 1 } },
    workspaces: () => {
      onAsked();
      return isHanging ? new Promise<never>(() => {}) : [];
    },
  });
  const caller = await connectPipe('v2', sessions);
  open.push(caller);
  const controller = new AbortController();
  const asked = new Promise<void>((resolve) => {
    onAsked = resolve;
  });
  const call = caller.client.callTool({ name: 'whoami', arguments: {} }, { signal: controller.signal });
  await asked;
  isHanging = false;
  controller.abort();
  await expect(call).rejects.toThrow();
  await expect.poll(async () => (await caller.call('whoami')).error?.code).toBeUndefined();
});

test('L7: cancelled calls that wait for a cached result start nothing', async () => {
  let runs = 0;
  let finish = () => {};
  const build = ((_sdk, given) => {
    const server = withSessions(new McpServer({ name: 'slow', version: '1' }), given);
    server.registerTool('slow', {}, async () => {
      const work = () => {
        runs++;
        return new Promise<string>((resolve) => {
          finish = () => resolve('done');
        });
      };
      const text = JSON.stringify(await cacheResult(work, { ttlSeconds: 60 }));
      return { content: [{ type: 'text', text }] };
    });
    return server;
  }) as typeof buildServer;
  const caller = await connectPipe('v2', sessionsWith(), undefined, build);
  open.push(caller);
  const first = caller.call('slow');
  await expect.poll(() => runs).toBe(1);
  const controllers = Array.from({ length: 5 }, () => new AbortController());
  const followers = controllers.map(({ signal }) =>
    caller.client.callTool({ name: 'slow', arguments: {} }, { signal }),
  );
  const last = caller.call('slow');
  for (const controller of controllers) controller.abort();
  for (const follower of followers) await expect(follower).rejects.toThrow();
  finish();
  expect([(await first).value, (await last).value, runs]).toEqual(['done', 'done', 1]);
});
