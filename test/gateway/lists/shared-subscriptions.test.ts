import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openBoundedGateway } from '../bounded-gateway.ts';

const on = openBoundedGateway();
const script = join(import.meta.dirname, '../../fixtures/hostile/accepts-subscriptions.js');
const shared = { command: process.execPath, args: [script], scope: 'shared' as const, contextAware: true };
const plain = 'news:1';
const named = `ambit+shared:${plain}`;

/** Two clients of one process, each in a session of its own and at an address of its own; `undefined` is that of all servers. */
async function connectTwo(adaAt: string | undefined, bobAt: string | undefined) {
  await on.start('handshake', { servers: { shared } });
  const clients = [adaAt, bobAt].map(async (server) => {
    const { id } = await on.gateway.createSession();
    return on.connect(id, 'handshake', server);
  });
  const [ada, bob] = await Promise.all(clients);
  if (ada === undefined || bob === undefined) throw new Error('not connected');
  return { ada, bob };
}

test.each([
  [undefined, 'shared'],
  ['shared', undefined],
  [undefined, undefined],
])('S2: a client at %s does not cancel what a client at %s has subscribed to', async (adaAt, bobAt) => {
  const { ada, bob } = await connectTwo(adaAt, bobAt);
  const [adas, bobs] = [adaAt, bobAt].map((at) => (at === undefined ? named : plain));
  const subscribed = () => bob.call(bobAt === undefined ? 'shared__subscribed' : 'subscribed');
  expect((await bob.request('resources/subscribe', { uri: bobs })).error).toBeUndefined();
  expect((await ada.request('resources/unsubscribe', { uri: adas })).error).toBeUndefined();
  expect(await subscribed()).toBe(plain);
  // Whoever leaves last says goodbye.
  await ada.request('resources/subscribe', { uri: adas });
  await bob.request('resources/unsubscribe', { uri: bobs });
  expect(await subscribed()).toBe(plain);
  await ada.request('resources/unsubscribe', { uri: adas });
  expect(await subscribed()).toBe('');
});

test('S2: a subscription that was refused is none, and an update names what was subscribed to', async () => {
  const { ada } = await connectTwo(undefined, undefined);
  for (let from = 0; from <= 1000; from += 50) {
    const some = Array.from({ length: 50 }, (_, n) => `ambit+shared:refuse:${from + n}`);
    const answers = await Promise.all(some.map((uri) => ada.request('resources/subscribe', { uri })));
    expect(new Set(answers.map(({ error }) => error?.code))).toEqual(new Set([-32002]));
  }
  const told = ada.told('notifications/resources/updated');
  await ada.request('resources/subscribe', { uri: 'ambit+shared:noisy:1' });
  await told;
  expect(ada.heard.map(({ params }) => params?.['uri'])).toEqual(['ambit+shared:noisy:1']);
});
