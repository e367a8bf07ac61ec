import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, type TestContext, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import { createLifecycle } from '../../../src/sessions/events/lifecycle.ts';
import { createWebhook, openWebhookKey } from '../../../src/sessions/events/webhook.ts';
import type { Restriction, SessionDraft } from '../../../src/sessions/session.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { startReceiver, verifySignature } from './webhook-receiver.ts';

interface WatchedGateway {
  createSession(draft?: SessionDraft): Promise<{ readonly id: string; readonly token: string }>;
  restrictSession(id: string, change: Restriction): Promise<unknown>;
  endSession(id: string): Promise<boolean>;
  close(): Promise<void>;
}

/** A folder and a receiver of one test's own, and the gateways it starts; all of it goes with the test. */
async function prepare({ onTestFinished }: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-webhook-'));
  const receiver = await startReceiver();
  const lines: string[] = [];
  const gateways: WatchedGateway[] = [];
  const note = (event: string, fields: object = {}) => void lines.push(`${event} ${JSON.stringify(fields)}`);
  const log = { info: note, warn: note };
  onTestFinished(async () => {
    for (const gateway of gateways.splice(0)) await gateway.close();
    await receiver.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Nothing is served here, so nothing is started ahead of it. */
  async function start(more: { readonly secretFile?: string } = {}): Promise<WatchedGateway> {
    const configFile = join(folder, 'ambit.json');
    const sessions = { defaultTrust: 'direct' };
    const text = JSON.stringify({ version: 1, sessions, events: { webhook: { url: receiver.url, ...more } } });
    const { config } = await loadConfig({ text, file: configFile });
    const gateway = await openGateway({ config, configFile, dataDir: join(folder, 'data'), log });
    const made: WatchedGateway = {
      async createSession(draft = {}) {
        const { session, token } = await gateway.openSession(draft);
        return { id: session.id, token };
      },
      restrictSession: gateway.restrictSession,
      endSession: (id) => gateway.sessions.end(id),
      close: () => gateway.close(),
    };
    gateways.push(made);
    return made;
  }

  return { folder, receiver, lines, log, gateways, start, types: () => receiver.seen.map(({ event }) => event.type) };
}

// Most of their time is spent waiting, for a session to expire or for the next attempt: they wait at the same time.
describe.concurrent('the webhook', () => {
  test('L13: sends each step in the life of a session, signed', async (context) => {
    const { folder, lines, receiver, start, types } = await prepare(context);
    const gateway = await start();
    const { id, token } = await gateway.createSession({ name: 'watched' });
    await gateway.restrictSession(id, { ttlSeconds: 30 });
    await gateway.endSession(id);
    await gateway.createSession({ ttlSeconds: 1 });
    await receiver.sees(({ event }) => event.type === 'session.expired');
    expect(types()).toEqual([
      'session.created',
      'session.restricted',
      'session.ended',
      'session.created',
      'session.expired',
    ]);
    expect(receiver.seen[2]?.event).toMatchObject({
      timestamp: expect.stringMatching(/^\d{4}-/),
      data: { reason: 'ended', session: { id, name: 'watched' } },
    });
    const file = join(folder, 'data', 'webhook-secret');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const secret = readFileSync(file, 'utf8').trim();
    for (const delivery of receiver.seen) {
      expect(await verifySignature(delivery, secret)).toBe(true);
      // The check itself can fail: another body, another id, another time, another key.
      expect(await verifySignature({ ...delivery, body: `${delivery.body} ` }, secret)).toBe(false);
      for (const name of ['webhook-id', 'webhook-timestamp']) {
        const headers = { ...delivery.headers, [name]: name === 'webhook-id' ? 'evt_other' : '1' };
        expect(await verifySignature({ ...delivery, headers }, secret)).toBe(false);
      }
      expect(await verifySignature(delivery, `whsec_${btoa('x'.repeat(32))}`)).toBe(false);
    }
    expect(new Set(receiver.seen.map(({ headers }) => headers['webhook-id'])).size).toBe(5);
    const said = JSON.stringify([receiver.seen, lines]);
    for (const planted of [token, secret]) expect(said).not.toContain(planted);
    expect(lines.join('\n')).not.toContain('planted-in-the-address');
  });

  test('of several gateways on one store, the one that made the change sends the event', async (context) => {
    const { gateways, receiver, start, types } = await prepare(context);
    const [first, second] = [await start(), await start()];
    const { id } = await first.createSession();
    await second.restrictSession(id, { ttlSeconds: 1000 });
    const brief = await second.createSession({ ttlSeconds: 1 });
    await receiver.sees(({ event }) => event.type === 'session.expired' && event.data.session.id === brief.id);
    await second.endSession(id);
    await receiver.sees(({ event }) => event.type === 'session.ended');
    for (const gateway of gateways.splice(0)) await gateway.close();
    expect(types().sort()).toEqual([
      'session.created',
      'session.created',
      'session.ended',
      'session.expired',
      'session.restricted',
    ]);
  });

  test('an event that was not accepted is sent again unchanged', async (context) => {
    const { lines, receiver, start, types } = await prepare(context);
    let refusals = 2;
    receiver.answer = () => ({ status: refusals-- > 0 ? 503 : 200 });
    const gateway = await start();
    const { id } = await gateway.createSession();
    await gateway.endSession(id);
    await receiver.sees(({ event }) => event.type === 'session.ended');
    const created = receiver.seen.filter(({ event }) => event.type === 'session.created');
    expect(created).toHaveLength(3);
    expect(new Set(created.map(({ headers, body }) => `${headers['webhook-id']} ${body}`)).size).toBe(1);
    expect(types().at(-1)).toBe('session.ended');
    expect(lines.filter((line) => /delivery failed; retrying.*status 503/.test(line))).toHaveLength(1);
  });

  test('redirects are not followed, and nobody waits for a receiver that does not answer', async (context) => {
    const { gateways, lines, receiver, start } = await prepare(context);
    receiver.answer = () => ({ status: 307, location: '/elsewhere' });
    const gateway = await start();
    const { id } = await gateway.createSession();
    await receiver.sees(() => true);
    // The receiver refuses everything from here on; sessions live and end all the same.
    expect(await gateway.endSession(id)).toBe(true);
    await gateways.pop()?.close();
    expect(receiver.seen.every(({ path }) => path.startsWith('/hook'))).toBe(true);
    expect(lines.join('\n')).toMatch(/not delivered before shutdown.*"events":\d/);
  });

  test('a secret of one’s own is taken, if it is one and private', async (context) => {
    const { folder, receiver, start } = await prepare(context);
    const secretFile = join(folder, 'secret');
    for (const [text, mode] of [
      ['whsec_short', 0o600],
      [`whsec_${'*'.repeat(40)}`, 0o600],
      ['just some words that are long enough', 0o600],
      [`whsec_${btoa('k'.repeat(32))}`, 0o644],
    ] as const) {
      writeFileSync(secretFile, text, { mode });
      await expect(start({ secretFile })).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
      rmSync(secretFile);
    }
    await expect(start({ secretFile })).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    writeFileSync(secretFile, `whsec_${btoa('k'.repeat(32))}\n`, { mode: 0o600 });
    const gateway = await start({ secretFile });
    await gateway.createSession();
    expect(await verifySignature(await receiver.sees(() => true), `whsec_${btoa('k'.repeat(32))}`)).toBe(true);
  });
});

// It has a second for that, so nothing else goes on in this process meanwhile.
test('what was done last is told before the gateway ends', async (context) => {
  const { gateways, start, types } = await prepare(context);
  const gateway = await start();
  const { id } = await gateway.createSession();
  await gateway.endSession(id);
  await gateways.pop()?.close();
  expect(types()).toEqual(['session.created', 'session.ended']);
});

test('what waits is bounded, and given up when it is old', async (context) => {
  const { folder, lines, log, receiver } = await prepare(context);
  const store = openMemoryStore();
  const lifecycle = createLifecycle(store);
  const key = await openWebhookKey(join(folder, 'key'), undefined, 'events.webhook.secretFile');
  receiver.answer = () => ({ status: 500 });
  const webhook = createWebhook({ url: receiver.url, key, lifecycle, log, pauseMs: 1, maxAgeMs: 50, maxWaiting: 3 });
  const ids = Array.from({ length: 10 }, (_, i) => `session-${i}`);
  // All at once, before the first of them can be given up.
  await Promise.all(ids.map((id) => store.create(createNewSession({ id }))));
  await receiver.sees(({ event }) => event.data.session.id === ids[2]);
  await webhook.close();
  expect(new Set(receiver.seen.map(({ event }) => event.data.session.id))).toEqual(new Set(ids.slice(0, 3)));
  expect(lines.some((line) => line.includes('too slow'))).toBe(true);
  expect(lines.some((line) => line.includes(`"step":"created","session":"${ids[0]}"`))).toBe(true);
  lifecycle.close();
  await store.close();
});
