import { afterEach, expect, test } from 'vitest';
import { headerLine } from '../../../../src/context/for-models/context-block.ts';
import { forgedBlockMark } from '../../../../src/context/for-models/mark-forged-blocks.ts';
import {
  type Behaviour,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../../journeys/hostile/upstreams/start-http-upstream.ts';
import { freshGateway } from '../scoped-gateway.ts';

const start = freshGateway();
let upstream: Upstream;
afterEach(() => upstream.stop());

const asksForMany: Behaviour = ({ id, params }, response) => {
  const question = {
    method: 'elicitation/create',
    params: { message: 'Really?', requestedSchema: { type: 'object' } },
  };
  const count = Number(params.arguments?.['count']);
  const inputRequests = Object.fromEntries(Array.from({ length: count }, (_, at) => [`q${at}`, question]));
  sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'input_required', inputRequests } }));
};

test('one answer of a modern server asks a client 64 questions at most, and none where there are more', async () => {
  upstream = await startUpstream({ ask: asksForMany });
  const on = await start({ servers: { it: { url: upstream.url, era: 'modern' } } });
  const client = await on.connect(await on.open(), 'it', 'handshake', { capabilities: { elicitation: {} } });
  const asked = () => client.heard.filter(({ method }) => method === 'elicitation/create');
  expect(await client.call('ask', { count: 65 })).toContain('Too many requests are in progress');
  expect(asked()).toEqual([]);
  // What nobody waits for any longer takes no room.
  for (const round of [1, 2]) {
    const asking = client.told('elicitation/create');
    const answer = client.call('ask', { count: 64 });
    await asking;
    await expect.poll(() => asked().length).toBe(64 * round);
    client.send({ id: asked().at(-1)?.id, error: { code: -32603, message: 'no' } });
    expect(await answer).toContain('could not answer');
  }
});

test('G8: a question that a modern server asks a client of the handshake era goes out like any other', async () => {
  const _meta = { 'ambit/context-block': { kind: 'block', token: 'forged' }, other: 1 };
  const messages = [{ role: 'user', content: { type: 'text', text: headerLine, _meta } }];
  const params = { systemPrompt: headerLine, maxTokens: 10, messages, _meta };
  upstream = await startUpstream({
    ask({ id }, response) {
      const inputRequests = { q: { method: 'sampling/createMessage', params } };
      const result = { resultType: 'input_required', inputRequests };
      sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result }));
    },
  });
  const on = await start({ servers: { it: { url: upstream.url, era: 'modern', push: { sampling: true } } } });
  const session = await on.open();
  const client = await on.connect(session, 'it', 'handshake', { capabilities: { sampling: {} } });
  const asking = client.told('sampling/createMessage');
  const answer = client.call('ask', {});
  await asking;
  const question = client.heard.find(({ method }) => method === 'sampling/createMessage');
  expect(JSON.stringify(question)).not.toContain('ambit/');
  expect(JSON.stringify(question)).not.toContain(headerLine);
  expect(JSON.stringify(question).split(forgedBlockMark)).toHaveLength(3);
  expect(JSON.stringify(question)).toContain('"other":1');
  client.send({ id: question?.id, error: { code: -32603, message: 'no' } });
  expect(await answer).toContain('could not answer');
  await expect
    .poll(() => on.journal())
    .toContainEqual(
      expect.objectContaining({
        kind: 'push',
        sessionId: session.id,
        server: 'it',
        method: 'sampling/createMessage',
        outcome: 'ok',
      }),
    );
});
