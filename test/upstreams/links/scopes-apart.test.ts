import { beforeAll, describe, expect, test } from 'vitest';
import type { RawClient } from '../../gateway/raw-client.ts';
import { type Era, eras, keptGateway, recorder, staysWith, twoSharing, whoami } from './scoped-gateway.ts';

const kept = keptGateway({
  servers: {
    modern: recorder('shared', 'modern'),
    handshake: recorder('shared', 'handshake'),
    'lone-modern': recorder('shared', 'modern'),
    'lone-handshake': recorder('shared', 'handshake'),
    each: recorder('call', 'handshake'),
  },
});
const pairs = eras.flatMap((server) => eras.map((client) => ({ server, client })));

beforeAll(() => Promise.all(eras.map((era) => staysWith(kept(), era))));

const twoOn = (era: Era, speaks: Era) => twoSharing(kept(), era, speaks);

const marked = (marker: string, method = 'notifications/message') =>
  `{"jsonrpc":"2.0","method":"${method}","params":{"level":"info","data":"${marker}"}}`;
const question = (marker: string) =>
  `{"jsonrpc":"2.0","id":"q-${marker}","method":"elicitation/create","params":{"message":"${marker}","requestedSchema":{"type":"object"}}}`;
const answered = (words: string) =>
  `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"${words}"}]}}`;

async function hears(client: RawClient, words: string): Promise<boolean> {
  // Whatever was said before this answer has been delivered before it.
  await client.call('echo');
  return JSON.stringify(client.heard).includes(words);
}

describe.each(pairs)(
  'a $client client in front of a $server server that all share',
  ({ server: era, client: speaks }) => {
    test('what names no call reaches nobody once two sessions have used it, and the server is told', async () => {
      const { a, b } = await twoOn(era, speaks);
      expect((await whoami(a)).pid).toBe((await whoami(b)).pid);
      const flood = Array.from({ length: 200 }, (_, i) =>
        marked(`secret of ann ${i}`, i % 2 ? undefined : 'notifications/acme'),
      );
      const lines = [...flood, ...(era === 'handshake' ? [question('secret of ann')] : []), answered('done')];
      const [mine] = await Promise.all([
        a.call('say', { lines }),
        b.call('slow', { key: 'b' }),
        b.call('shuffle', { marker: 'x', ms: 30 }).then(() => a.call('release', { key: 'b' })),
      ]);
      expect(mine).toBe('done');
      expect(await hears(b, 'secret')).toBe(false);
      expect(await hears(a, 'secret')).toBe(false);
      const recorded = JSON.parse(await a.call('recorded')) as string[];
      if (era === 'handshake')
        expect(recorded.some((line) => /"id":"q-secret of ann","error".*Several sessions/.test(line))).toBe(true);
    });

    test('progress goes to the caller of its call, and nobody else', async () => {
      const { a, b } = await twoOn(era, speaks);
      const call = (client: RawClient, marker: string) =>
        client.request('tools/call', {
          name: 'shuffle',
          arguments: { marker, progress: 5, ms: 5 },
          _meta: { progressToken: 7 },
        });
      await Promise.all([call(a, 'of ann'), call(b, 'of bob')]);
      for (const [client, own] of [
        [a, 'of ann'],
        [b, 'of bob'],
      ] as const) {
        expect(client.heard.map(({ params }) => params?.['message'])).toEqual(Array(5).fill(own));
        expect(client.heard.map(({ params }) => params?.['progressToken'])).toEqual(Array(5).fill(7));
      }
    });

    test('a call that another session has under way under the same id cannot be cancelled', async () => {
      const { a, b } = await twoOn(era, speaks);
      const first = a.request('tools/call', { name: 'slow', arguments: { key: 'k' } });
      await a.call('echo');
      for (let id = 0; id < 10; id++) b.send({ method: 'notifications/cancelled', params: { requestId: id } });
      await b.call('echo');
      await b.call('release', { key: 'k' });
      expect(JSON.stringify(await first)).toContain('released k');
    });

    test('task ids and states handed to one session do not open in another', async () => {
      const { a, b } = await twoOn(era, speaks);
      const task = await a.request('tools/call', { name: 'task', arguments: { marker: 'ann' } });
      const { taskId } = (task.result?.['task'] ?? task.result) as { taskId?: string };
      expect(taskId).toContain('task of ann');
      if (speaks === era) {
        const extensions = { 'io.modelcontextprotocol/tasks': {} };
        const _meta = { 'io.modelcontextprotocol/clientCapabilities': { extensions } };
        expect(JSON.stringify(await a.request('tasks/get', { taskId, _meta }))).toContain('working');
        expect((await b.request('tasks/get', { taskId, _meta })).error?.message).toBe('Task not found');
      }
      if (era !== 'modern' || speaks !== 'modern') return;
      const asked = await a.request('tools/call', { name: 'state', arguments: { marker: 'ann' } });
      const requestState = asked.result?.['requestState'];
      const retry = { name: 'state', arguments: {}, requestState, inputResponses: { sure: { action: 'accept' } } };
      expect((await b.request('tools/call', retry)).error?.message).toContain('requestState is not valid');
      expect(JSON.stringify(await a.request('tools/call', retry))).toContain('state of ann');
    });

    test('with one session alone, what it says reaches that session', async () => {
      const { a } = await twoSharing(kept(), `lone-${era}`, speaks);
      const wants = { 'io.modelcontextprotocol/logLevel': 'debug' };
      await a.request('tools/call', {
        name: 'say',
        arguments: { lines: [marked('for ann'), answered('x')] },
        _meta: wants,
      });
      if (speaks === era) expect(await hears(a, 'for ann')).toBe(true);
    });
  },
);

describe('questions of a handshake server to modern clients', () => {
  const accept = (asked: { result?: Record<string, unknown> }) => {
    const [key] = Object.keys(asked.result?.['inputRequests'] as object);
    const inputResponses = { [key as string]: { action: 'accept', content: {} } };
    return { requestState: asked.result?.['requestState'], inputResponses };
  };

  test.each(['call', 'shared'] as const)(
    'at scope %s the process waits for its answer, which only the one who was asked can give',
    async (scope) => {
      const on = kept();
      const server = scope === 'call' ? 'each' : 'lone-handshake';
      const [ann, bob] = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
      const a = await on.connect(ann, server, 'modern', { capabilities: { elicitation: {} } });
      const call = { name: 'push', arguments: { marker: 'sure?' } };
      const asked = await Promise.all(
        scope === 'call' ? [1, 2].map(() => a.request('tools/call', call)) : [a.request('tools/call', call)],
      );
      const b = await on.connect(bob, server, 'modern', { capabilities: { elicitation: {} } });
      for (const each of asked) {
        const stolen = await b.request('tools/call', { ...call, ...accept(each) });
        expect(stolen.error?.message).toContain('requestState is not valid');
        const done = await a.request('tools/call', { ...call, ...accept(each) });
        expect(JSON.stringify(done)).toContain('accept');
        expect(JSON.stringify(await a.request('tools/call', { ...call, ...accept(each) }))).toContain('no longer open');
      }
    },
  );
});

test('that a list changed reaches all, that a resource did its subscribers, and nothing comes along', async () => {
  const { a, b } = await twoOn('handshake', 'handshake');
  await Promise.all([a.call('echo'), b.request('resources/subscribe', { uri: 'note:1' })]);
  const lines = ['tools/list_changed', 'resources/updated'].map(
    (what) => `{"jsonrpc":"2.0","method":"notifications/${what}","params":{"uri":"note:1","_meta":{"k":"secret"}}}`,
  );
  await a.call('say', { lines: [...lines, answered('done')] });
  await b.call('echo');
  expect(a.heard.map(({ method }) => method)).toEqual(['notifications/tools/list_changed']);
  expect(b.heard.map(({ method }) => method)).toEqual([
    'notifications/tools/list_changed',
    'notifications/resources/updated',
  ]);
  expect(JSON.stringify([a.heard, b.heard])).not.toContain('secret');
});
