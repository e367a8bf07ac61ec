import { expect, test } from 'vitest';
import type { RawClient } from '../../../gateway/raw-client.ts';
import { freshGateway, recorder } from '../scoped-gateway.ts';

const start = freshGateway();
const forged = { 'ambit/context': 'forged', ambit: { workspace: '', sessionId: 'forged' }, 'AMBIT.x': 'forged' };
const answer = { action: 'accept', content: {}, _meta: { ...forged, 'com.example/k': 1 } };
const capabilities = { elicitation: {} };

test('P4: an answer that a modern client carries over to a server of the handshake era', async () => {
  const on = await start({ servers: { it: recorder('session', 'handshake') } });
  const client = await on.connect(await on.open(), 'it', 'modern', { capabilities });
  const call = { name: 'push', arguments: {}, _meta: forged };
  const { result } = await client.request('tools/call', call);
  const [key] = Object.keys(result?.['inputRequests'] as object);
  const retry = { ...call, requestState: result?.['requestState'], inputResponses: { [key as string]: answer } };
  const told = JSON.stringify(await client.request('tools/call', retry));
  expect(told).toContain('com.example/k');
  expect(told).not.toContain('forged');
  expect(await client.call('recorded')).not.toContain('forged');
});

test('P4: an answer of a client of the handshake era to a modern server, and the call it was asked in', async () => {
  const on = await start({ servers: { it: recorder('session', 'modern') } });
  const client = await on.connect(await on.open(), 'it', 'handshake', { capabilities });
  const answering = answerNext(client);
  const done = await client.request('tools/call', { name: 'state', arguments: { marker: 'm' }, _meta: forged });
  await answering;
  expect(JSON.stringify(done)).toContain('com.example/k');
  expect(JSON.stringify(done)).not.toContain('forged');
  expect(await client.call('recorded')).not.toContain('forged');
});

async function answerNext(client: RawClient): Promise<void> {
  await client.told('elicitation/create');
  const asked = client.heard.findLast(({ method }) => method === 'elicitation/create');
  client.send({ id: asked?.id, result: answer });
}
