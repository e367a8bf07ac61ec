import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { serveEvents } from '../../../src/entrances/control/event-streams.ts';
import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import { createLifecycle, type Lifecycle } from '../../../src/sessions/events/lifecycle.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { readEvents } from '../../entrances/http/event-reader.ts';

let now = 1_000_000;
let store: SessionStore;
let lifecycle: Lifecycle;

beforeEach(() => {
  now = 1_000_000;
  store = openMemoryStore({ now: () => now });
  lifecycle = createLifecycle(store, { kept: 5 });
});
afterEach(async () => {
  lifecycle.close();
  await store.close();
});

async function readEventsSince(position: number): Promise<[string, string | undefined][]> {
  const heard: [string, string | undefined][] = [];
  for (let step = lifecycle.next(position); step !== undefined; step = lifecycle.next(step.number)) {
    heard.push([step.type, (await lifecycle.describe(step)).session?.id]);
  }
  return heard;
}

describe('the steps of sessions', () => {
  test('L13: created, restricted, ended, expired, evicted', async () => {
    const start = lifecycle.positionAfter(undefined);
    const [one, two] = [createNewSession({ id: 'session-one' }), createNewSession({ id: 'session-two' })];
    await store.create(one);
    await store.update(one.id, 1, { permissions: [] });
    await store.update(one.id, 2, { metadata: { note: 'no step' } });
    await store.create(two, { inAll: 1 });
    now += two.ttlSeconds * 1000;
    await store.sweep();
    expect(await readEventsSince(start)).toEqual([
      ['created', one.id],
      ['restricted', one.id],
      ['evicted', one.id],
      ['created', two.id],
      ['expired', two.id],
    ]);
  });

  test('what is no longer kept is said to be lost, once, and the rest is told', async () => {
    const start = lifecycle.positionAfter(undefined);
    for (let i = 1; i <= 8; i++) await store.create(createNewSession({ id: `session-${i}` }));
    const heard = await readEventsSince(start);
    expect(heard[0]).toEqual(['lost', undefined]);
    expect(heard.slice(1).map(([, id]) => id)).toEqual([4, 5, 6, 7, 8].map((i) => `session-${i}`));
    const fifth = lifecycle.next(start + 4);
    const id = fifth === undefined ? '' : lifecycle.idOf(fifth);
    expect(await readEventsSince(lifecycle.positionAfter(id))).toHaveLength(3);
    // An id that was never given, of this run or of another, promises nothing.
    for (const odd of [id.replace(/\d+$/, '99'), `00000000-5`, '', '-', id.split('-')[0] ?? '']) {
      expect((await readEventsSince(lifecycle.positionAfter(odd)))[0]?.[0]).toBe('lost');
    }
  });

  test('that a store cannot say more does not hide that it happened', async () => {
    const start = lifecycle.positionAfter(undefined);
    await store.create(createNewSession({ id: 'session-one' }));
    await store.close();
    expect(await readEventsSince(start)).toEqual([['created', 'session-one']]);
  });
});

describe('readers', () => {
  let server: Server;
  let url: string;
  const gone: Promise<void>[] = [];

  beforeEach(async () => {
    lifecycle = createLifecycle(store, { kept: 1000 });
    server = createServer((request, response) => {
      // On a busy machine whoever reads may take long as well, and is not meant.
      const stuckMs = request.url === '/stuck' ? 300 : 60_000;
      gone.push(serveEvents(lifecycle, request, response, { heartbeatMs: 20, stuckMs }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  test('get a sign that the stream is still open', async () => {
    const reader = await readEvents(url, {});
    const comment = new Promise<string>((resolve) => {
      reader.response.on('data', (text: string) => text.startsWith(': ') && resolve(text));
    });
    expect(await comment).toMatch(/^: [^\n]+\n\n/);
    reader.close();
  });

  test('who stop reading are cut off, and hold up nobody else', async () => {
    const stuck = await new Promise<IncomingMessage>((resolve) => void get(`${url}stuck`, { agent: false }, resolve));
    stuck.pause();
    const reader = await readEvents(url, {});
    const metadata = { text: 'x'.repeat(200_000) };
    for (let i = 0; i < 100; i++) await store.create(createNewSession({ id: `session-${i}`, metadata }));
    await reader.hears(({ data }) => (data['session'] as { id: string }).id === 'session-99');
    await gone[gone.length - 2];
    expect(reader.heard).toHaveLength(100);
    reader.close();
    stuck.destroy();
  });
});
