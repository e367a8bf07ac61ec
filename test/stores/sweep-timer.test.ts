import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { openStore } from '../../src/stores/store-kinds.ts';
import { findRedis, type RedisServer, startRedis } from './redis-server.ts';

const program = findRedis();
let folder: string;
let server: RedisServer | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-itself-'));
  if (program !== undefined) server = await startRedis(program);
});
afterAll(async () => {
  await server?.remove();
  await rm(folder, { recursive: true, force: true });
});

async function expiresByItself(store: SessionStore): Promise<void> {
  const session = createNewSession({ ttlSeconds: 1 });
  const ended = new Promise((resolve) => store.watch((change) => change.kind === 'ended' && resolve(change)));
  expect((await store.create(session)).outcome).toBe('created');
  // Only the store's own timers are at work now, and they keep no process alive; this one does.
  const alive = setInterval(() => {}, 1000);
  expect(await ended).toEqual({ kind: 'ended', id: session.id, reason: 'expired', here: true });
  clearInterval(alive);
  expect(await store.admit({ id: session.id })).toEqual({ outcome: 'expired' });
  await store.close();
}

describe.concurrent('L4: a store opened as configured tells by itself, and by its own clock, what has expired', () => {
  test('memory', async () => expiresByItself(await openStore({ kind: 'memory' }, folder)));
  test('sqlite', async () => expiresByItself(await openStore({ kind: 'sqlite' }, join(folder, 'data'))));
  test.skipIf(program === undefined)('redis', async () =>
    expiresByItself(await openStore({ kind: 'redis', redis: { url: server?.url ?? '' } }, folder)),
  );
  test('redis without an address is refused', async () => {
    await expect(openStore({ kind: 'redis' }, folder)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  });
});
