import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import { createLifecycle, type LifecycleStep } from '../../../src/sessions/events/lifecycle.ts';
import { createWebhook, openWebhookKey } from '../../../src/sessions/events/webhook.ts';
import { openWebhookQueue, type WebhookQueue } from '../../../src/sessions/events/webhook-queue.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { startReceiver, type WebhookReceiver } from './webhook-receiver.ts';

let folder: string;
let receiver: WebhookReceiver;
const opened: WebhookQueue[] = [];
const warned: string[] = [];
const log = { info() {}, warn: (event: string) => void warned.push(event) };

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-waiting-'));
  receiver = await startReceiver();
  warned.length = 0;
});
afterEach(async () => {
  for (const each of opened.splice(0)) each.close();
  await receiver.close();
  rmSync(folder, { recursive: true, force: true });
});

const queueFolder = () => join(folder, 'webhook');
function openQueue(silenceMs?: number): WebhookQueue {
  const events = openWebhookQueue(queueFolder(), log, silenceMs === undefined ? {} : { silenceMs });
  opened.push(events);
  return events;
}
const step = (number: number): LifecycleStep => ({
  number,
  type: 'created',
  at: 1000 + number,
  sessionId: `session-${number}`,
  reason: undefined,
  here: true,
});
const event = (number: number) => ({ id: `evt_${number}`, step: step(number) });
/** As if whoever wrote them had been killed long ago. */
function abandonFiles(): void {
  for (const name of readdirSync(queueFolder())) utimesSync(join(queueFolder(), name), 0, 0);
}
const ids = (events: readonly { readonly id: string }[]) => events.map(({ id }) => id);

test('only the owner of the gateway may read what waits', () => {
  openQueue().add(event(1));
  const [name = ''] = readdirSync(queueFolder());
  const modes = [queueFolder(), join(queueFolder(), name)].map((path) => statSync(path).mode & 0o777);
  expect(modes).toEqual([0o700, 0o600]);
});

test('what a process left is found once, in order, without what was done', () => {
  const first = openQueue();
  for (const number of [1, 2, 3]) first.add(event(number));
  first.remove('evt_2');
  abandonFiles();
  const [second, third] = [openQueue(), openQueue()];
  const found = second.takeAbandoned();
  expect(found).toEqual([event(1), event(3)].map((each) => JSON.parse(JSON.stringify(each))));
  expect([third.takeAbandoned(), second.takeAbandoned()]).toEqual([[], []]);
  // It is theirs now, and can be left in turn.
  second.remove('evt_1');
  abandonFiles();
  expect(ids(third.takeAbandoned())).toEqual(['evt_3']);
});

test('what a live process waits for is left alone; one that ended in order is succeeded at once', () => {
  const first = openQueue();
  first.add(event(1));
  const second = openQueue();
  expect(second.takeAbandoned()).toEqual([]);
  first.close();
  expect(ids(second.takeAbandoned())).toEqual(['evt_1']);
});

test('files are private, are removed when nothing waits, and do not grow with sent events', () => {
  const events = openQueue();
  for (let number = 0; number < 6000; number++) {
    events.add(event(number));
    if (number > 0) events.remove(`evt_${number - 1}`);
  }
  const [name = ''] = readdirSync(queueFolder());
  const { mode, size } = statSync(join(queueFolder(), name));
  expect(mode & 0o777).toBe(0o600);
  expect(size).toBeLessThan(4096 * 200);
  events.remove('evt_5999');
  expect(readdirSync(queueFolder())).toEqual([]);
});

test('a truncated line, and a line that is no event, is skipped', () => {
  const events = openQueue();
  events.add(event(1));
  const [name = ''] = readdirSync(queueFolder());
  const file = join(queueFolder(), name);
  writeFileSync(file, `${readFileSync(file, 'utf8')}null\n[]\n"x"\n{"id":"evt_2"}\n{"id":"evt_3","step":{"numb`);
  abandonFiles();
  expect(ids(openQueue().takeAbandoned())).toEqual(['evt_1']);
});

test('a process that was taken for gone and comes back writes its waiting events again', async () => {
  const first = openQueue(20);
  first.add(event(1));
  abandonFiles();
  expect(ids(openQueue().takeAbandoned())).toEqual(['evt_1']);
  const before = readdirSync(queueFolder());
  while (readdirSync(queueFolder()).length === before.length) await new Promise((resolve) => setImmediate(resolve));
});

test('a folder that cannot be written is logged once, and no call fails', () => {
  const events = openQueue();
  rmSync(queueFolder(), { recursive: true });
  writeFileSync(queueFolder(), 'in the way');
  for (const number of [1, 2]) expect(() => events.add(event(number))).not.toThrow();
  expect(events.takeAbandoned()).toEqual([]);
  expect(warned).toEqual(['webhook events cannot be stored']);
});

test('L13: what was not delivered when a process ended or was killed is delivered by the next, under the same id', async () => {
  const store = openMemoryStore();
  const key = await openWebhookKey(join(folder, 'key'), undefined, 'events.webhook.secretFile');
  const start = () => {
    const lifecycle = createLifecycle(store);
    const options = { url: receiver.url, key, lifecycle, log, pauseMs: 60_000 };
    return { lifecycle, webhook: createWebhook({ ...options, queue: openQueue() }) };
  };
  receiver.answer = () => ({ status: 503 });
  const first = start();
  for (const id of ['session-one', 'session-two']) await store.create(createNewSession({ id }));
  const refused = await receiver.sees(() => true);
  await first.webhook.close();
  first.lifecycle.close();
  expect(warned).toContain('webhook events not delivered before shutdown');

  receiver.answer = () => ({ status: 204 });
  const before = receiver.seen.length;
  const second = start();
  await receiver.sees(({ event: { data } }) => data.session.id === 'session-two' && receiver.seen.length > before);
  await second.webhook.close();
  const taken = receiver.seen.slice(before);
  expect(taken.map(({ event: { data } }) => data.session.id)).toEqual(['session-one', 'session-two']);
  expect(taken[0]?.headers['webhook-id']).toBe(refused.headers['webhook-id']);
  expect(readdirSync(queueFolder())).toEqual([]);
  second.lifecycle.close();
  await store.close();
});
