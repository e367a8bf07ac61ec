import assert from 'node:assert/strict';
import type { MessageLimits } from '../../../stores/inbox.ts';
import type { SessionStore } from '../../../stores/store.ts';
import { watchStore } from './feed.ts';
import { callConcurrently, type DefineTest, isInvalidRequest, openPair } from './harness.ts';

const limits: MessageLimits = { perMinute: 60_000, messages: 50, bytes: 100_000 };

const readTexts = async (store: SessionStore, id: string, after = 0): Promise<string[]> =>
  (await store.inboxes.list(id, { after })).map(({ text }) => text);

export function testInboxes(test: DefineTest): void {
  test('messages are read in the order of their numbers until they are acknowledged', async ({ store, open }) => {
    const [from, to] = [(await open()).id, (await open()).id];
    const texts = ['one', 'zwei ü😀', '{"three":3}'];
    for (const [index, text] of texts.entries()) {
      assert.deepEqual(await store.inboxes.send({ from, to, text }, limits), { outcome: 'sent', number: index + 1 });
    }
    assert.deepEqual(
      await store.inboxes.list(to),
      texts.map((text, index) => ({ number: index + 1, text })),
    );
    assert.deepEqual(await readTexts(store, to, 1), texts.slice(1));
    assert.equal((await store.inboxes.list(to, { limit: 2 })).length, 2);
    assert.equal(await store.inboxes.acknowledge(to, 2), 2);
    assert.equal(await store.inboxes.acknowledge(to, 2), 0);
    assert.deepEqual(await readTexts(store, to), texts.slice(2));
    assert.deepEqual(await readTexts(store, from), []);
    assert.equal(await store.inboxes.acknowledge(to, 1000), 1);
    // A number is never used again.
    assert.deepEqual(await store.inboxes.send({ from, to, text: 'four' }, limits), { outcome: 'sent', number: 4 });
    assert.deepEqual(await store.inboxes.list(to), [{ number: 4, text: 'four' }]);
  });

  test('an inbox is full at its messages and at its bytes, until some are acknowledged', async ({ store, open }) => {
    const [from, to] = [(await open()).id, (await open()).id];
    const few = { ...limits, messages: 2, bytes: 10 };
    await store.inboxes.send({ from, to, text: 'xxxx' }, few);
    const wide = { from, to, text: 'ü'.repeat(4) };
    assert.deepEqual(await store.inboxes.send(wide, few), { outcome: 'full', limit: 'bytes' }, 'bytes, not characters');
    await store.inboxes.send({ from, to, text: 'x'.repeat(6) }, few);
    assert.deepEqual(await store.inboxes.send({ from, to, text: 'x' }, few), { outcome: 'full', limit: 'messages' });
    await store.inboxes.acknowledge(to, 1);
    assert.equal((await store.inboxes.send({ from, to, text: 'xxxx' }, few)).outcome, 'sent');
    assert.deepEqual(await readTexts(store, to), ['xxxxxx', 'xxxx']);
  });

  test('a sender has a rate over all inboxes, with the exact time to retry', async ({ store, open, advance }) => {
    const [from, other] = [(await open()).id, (await open()).id];
    const inboxes = [(await open()).id, (await open()).id];
    const slow = { ...limits, perMinute: 6 };
    for (let index = 0; index < 6; index++) {
      const to = inboxes[index % 2] as string;
      assert.equal((await store.inboxes.send({ from, to, text: 'x' }, slow)).outcome, 'sent', String(index));
    }
    const next = { from, to: inboxes[0] as string, text: 'x' };
    assert.deepEqual(await store.inboxes.send(next, slow), { outcome: 'paced', retryAfterMs: 10_000 });
    assert.equal((await store.inboxes.send({ ...next, from: other }, slow)).outcome, 'sent');
    advance(9999);
    assert.deepEqual(await store.inboxes.send(next, slow), { outcome: 'paced', retryAfterMs: 1 });
    advance(1);
    assert.equal((await store.inboxes.send(next, slow)).outcome, 'sent');
  });

  test('a message without a sender has no rate, but the recipient and its inbox are checked', async (storeTest) => {
    const { store, open } = storeTest;
    const { id: to } = await open();
    const watcher = watchStore(store);
    const few = { perMinute: 1, messages: 2, bytes: 100_000 };
    for (const number of [1, 2]) {
      const sent = await store.inboxes.send({ from: null, to, text: `m${number}` }, few);
      assert.deepEqual(sent, { outcome: 'sent', number });
    }
    await watcher.waitFor((change) => change.kind === 'message' && change.id === to, 'the message');
    assert.deepEqual(await readTexts(store, to), ['m1', 'm2']);
    const full = { outcome: 'full', limit: 'messages' } as const;
    assert.deepEqual(await store.inboxes.send({ from: null, to, text: 'x' }, few), full);
    const missing = await store.inboxes.send({ from: null, to: 'unknown', text: 'x' }, few);
    assert.deepEqual(missing, { outcome: 'missing' });
    await store.end(to);
    const ended = await store.inboxes.send({ from: null, to, text: 'x' }, few);
    assert.deepEqual(ended, { outcome: 'ended', reason: 'ended' });
  });

  test('both sessions must be live, and messages end with the recipient', async ({ store, open, advance }) => {
    const [from, to] = [(await open()).id, (await open({ id: 'the-recipient', ttlSeconds: 30 })).id];
    await store.inboxes.send({ from, to, text: 'x' }, limits);
    assert.deepEqual(await store.inboxes.send({ from, to: 'unknown', text: 'x' }, limits), { outcome: 'missing' });
    assert.deepEqual(await store.inboxes.send({ from: 'unknown', to, text: 'x' }, limits), { outcome: 'sender-gone' });
    advance(30_000);
    assert.deepEqual(await store.inboxes.send({ from, to, text: 'x' }, limits), { outcome: 'expired' });
    assert.deepEqual(await readTexts(store, to), []);
    assert.equal(await store.inboxes.acknowledge(to, 1), 0);
    await store.end(from);
    const ended = await store.inboxes.send({ from: (await open()).id, to: from, text: 'x' }, limits);
    assert.deepEqual(ended, { outcome: 'ended', reason: 'ended' });
  });

  test('messages that are sent at once by several processes get different numbers, within the limit', async (storeTest) => {
    const stores = await openPair(storeTest);
    const senders = [(await storeTest.open()).id, (await storeTest.open()).id];
    const to = (await storeTest.open()).id;
    const answers = await callConcurrently(stores, (store, index) =>
      store.inboxes.send({ from: senders[index % 2] as string, to, text: String(index) }, { ...limits, messages: 15 }),
    );
    const sent = answers.flatMap((answer, index) =>
      answer.outcome === 'sent' ? [{ number: answer.number, text: String(index) }] : [],
    );
    assert.equal(sent.length, 15);
    assert.deepEqual(
      await stores[1].inboxes.list(to),
      sent.sort((a, b) => a.number - b.number),
    );
  });

  test('a watcher hears of each message, also from another process', async (storeTest) => {
    const [store, other] = await openPair(storeTest);
    const [from, to] = [(await storeTest.open()).id, (await storeTest.open()).id];
    const watchers = [watchStore(store), watchStore(other)];
    await store.inboxes.send({ from, to, text: 'x' }, limits);
    for (const { waitFor } of watchers)
      await waitFor((change) => change.kind === 'message' && change.id === to, 'the message');
    const heard = watchers[0]?.changes.find(({ kind }) => kind === 'message');
    assert.deepEqual(heard, { kind: 'message', id: to, here: true });
  });

  test('a long list ends early, and the rest follows', async ({ store, open }) => {
    const [from, to] = [(await open()).id, (await open()).id];
    const text = 'x'.repeat(400_000);
    for (let index = 0; index < 5; index++) await store.inboxes.send({ from, to, text }, { ...limits, bytes: 1e9 });
    assert.equal((await store.inboxes.list(to)).length, 3);
    assert.equal((await readTexts(store, to, 3)).length, 2);
  });

  test('invalid messages and numbers are refused', async ({ store, open }) => {
    const { id: from } = await open();
    for (const text of ['', 'a\u0000b', '\ud800', 'x'.repeat(600_000)]) {
      await assert.rejects(store.inboxes.send({ from, to: from, text }, limits), isInvalidRequest);
    }
    await assert.rejects(store.inboxes.send({ from, to: '../x', text: 'x' }, limits), isInvalidRequest);
    for (const options of [{ after: -1 }, { limit: 0 }])
      await assert.rejects(store.inboxes.list(from, options), isInvalidRequest);
    await assert.rejects(store.inboxes.acknowledge(from, 1.5), isInvalidRequest);
  });
}
