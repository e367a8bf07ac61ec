import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import {
  callModern,
  connectHandshake,
  patience,
  readAnswer,
  readToolText,
  sendModern,
} from '../../../journeys/raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../../../journeys/start-embedded-ambit.ts';
import { startSseServer } from './sse-server.ts';

const hostile = ['other-origin', 'script', 'huge', 'missing', 'endless'] as const;

let upstream: Awaited<ReturnType<typeof startSseServer>>;
let ambit: EmbeddedAmbit;
let token = '';
beforeAll(async () => {
  upstream = await startSseServer();
  const urls = Object.fromEntries(
    hostile.map((name) => [name, { url: `${upstream.origin}/${name}`, type: 'sse', timeoutSeconds: 5 }]),
  );
  ambit = await startEmbeddedAmbit({
    servers: {
      found: { url: `${upstream.origin}/sse` },
      named: { url: `${upstream.origin}/sse`, type: 'sse', timeoutSeconds: 1 },
      ...urls,
    },
    limits: { messageBytes: 65_536 },
  });
  ({ token } = await ambit.open());
});
beforeEach(() => {
  upstream.posted.length = 0;
  upstream.requests.length = 0;
});
afterAll(async () => {
  await ambit?.stop();
  upstream?.close();
});

const methodsOf = () => upstream.posted.map(({ method }) => method);

test('the transport is detected, remembered, and used by clients of both eras at both addresses', async () => {
  const client = await connectHandshake(ambit.mcp('found'), token);
  expect(await readToolText(client.call('echo', '{}'))).toMatch(/^stream \d+$/);
  expect(upstream.requests.slice(0, 2)).toEqual(['POST /sse', 'GET /sse']);
  expect(methodsOf()).toEqual(['initialize', 'notifications/initialized', 'tools/call']);
  const stored = await readFile(join(ambit.dataDir, 'eras.json'), 'utf8');
  expect(JSON.parse(stored)).toMatchObject([['found', { verdict: 'handshake', transport: 'sse' }]]);

  upstream.requests.length = 0;
  expect(await readToolText(callModern(ambit.mcp('found'), token, 'echo', '{}'))).toMatch(/^stream \d+$/);
  expect(await readToolText(callModern(`${ambit.url}/mcp`, token, 'found__echo', '{}'))).toMatch(/^stream \d+$/);
  const aggregate = await connectHandshake(`${ambit.url}/mcp`, token);
  expect(await readToolText(aggregate.call('found__echo', '{}'))).toMatch(/^stream \d+$/);
  expect(upstream.requests).not.toContain('POST /sse');
  expect(upstream.requests).not.toContain('POST /stolen');
});

test('with type: sse the server is not asked for another transport; context and token reach it', async () => {
  expect(await readToolText(callModern(ambit.mcp('named'), token, 'echo', '{}'))).toMatch(/^stream \d+$/);
  expect(upstream.requests.filter((each) => each.endsWith('/sse'))).toEqual(['GET /sse']);
  const call = upstream.posted.find(({ method }) => method === 'tools/call');
  expect(call?.params?._meta).toMatchObject({ 'ambit/context': expect.anything() });
  expect(call?.headers['txn-token']).toMatch(/^ey/);
  expect(upstream.posted[0]).toMatchObject({ method: 'initialize', params: { _meta: expect.anything() } });
});

test('progress and questions reach the caller, in either era', async () => {
  const client = await connectHandshake(ambit.mcp('found'), token);
  const told = await (await client.call('progress', '{}', { meta: '"progressToken":"p"' })).rest();
  expect(told.map((each) => JSON.parse(each).params?.progressToken)).toContain('p');
  const asking = await client.call('ask', '{}', { id: '5' });
  const question = JSON.parse((await asking.next()) || (await asking.next()) || '');
  expect(question).toMatchObject({ method: 'elicitation/create', params: { message: 'who?' } });
  await client.post(`{"jsonrpc":"2.0","id":${JSON.stringify(question.id)},"result":{"action":"decline"}}`);
  expect((await asking.rest()).at(-1)).toContain('heard {\\"action\\":\\"decline\\"}');

  const { result } = await readAnswer(callModern(ambit.mcp('named'), token, 'ask', '{}'));
  expect(result).toMatchObject({ resultType: 'input_required' });
  const [key = ''] = Object.keys(result?.inputRequests as object);
  const params = `"name":"ask","arguments":{},"requestState":${JSON.stringify(result?.requestState)},"inputResponses":{"${key}":{"action":"cancel"}}`;
  const again = await readToolText(sendModern(ambit.mcp('named'), token, { name: 'ask', params }));
  expect(again).toContain('{"action":"cancel"}');
});

test('two sessions have streams of their own, and no message of one reaches the other', async () => {
  const { token: other } = await ambit.open();
  const one = await connectHandshake(ambit.mcp('found'), token);
  const two = await connectHandshake(ambit.mcp('found'), other);
  const own = await readToolText(one.call('echo', '{}'));
  const theirs = await readToolText(two.call('echo', '{}'));
  expect(own).not.toBe(theirs);
  void two.call('hold', '{}', { id: '7' }).catch(() => {});
  await vi.waitUntil(() => upstream.posted.some(({ params }) => params?.name === 'hold'), patience);
  const told = await (await one.call('progress', '{}', { id: '7', meta: '"progressToken":"one"' })).rest();
  expect(told).toHaveLength(told.filter((each) => each === '' || each.includes(own) || each.includes('"one"')).length);
  await two.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}');
  await vi.waitUntil(() => methodsOf().includes('notifications/cancelled'), patience);
  expect(upstream.posted.find(({ method }) => method === 'notifications/cancelled')?.stream).toBe(theirs.slice(7));
});

test('a stream that is lost during a call fails it; the next call makes a new handshake', async () => {
  const client = await connectHandshake(ambit.mcp('found'), token);
  const said = await readToolText(client.call('lose', '{}'));
  expect(said).toMatch(/^UPSTREAM_FAILED: .* The call may have taken effect\. Check whether it did/);
  const before = await readToolText(client.call('echo', '{}'));
  upstream.restart();
  upstream.posted.length = 0;
  const after = await readToolText(client.call('echo', '{}'));
  expect(after).toMatch(/^stream \d+$/);
  expect(after).not.toBe(before);
  expect(methodsOf()).toEqual(['initialize', 'notifications/initialized', 'tools/call']);
});

test('a server that answers a call and never confirms its POST keeps no connection', async () => {
  const client = await connectHandshake(ambit.mcp('found'), token);
  expect(await readToolText(client.call('open', '{}'))).toMatch(/^stream \d+$/);
  await vi.waitUntil(() => upstream.requests.includes('closed'), patience);
  expect(await readToolText(client.call('echo', '{}'))).toMatch(/^stream \d+$/);
});

test('a call that times out is cancelled', async () => {
  const client = await connectHandshake(ambit.mcp('named'), token);
  expect(await readToolText(client.call('hold', '{}'))).toMatch(/^UPSTREAM_TIMEOUT: .*may have taken effect/);
  await vi.waitUntil(() => methodsOf().includes('notifications/cancelled'), patience);
});

test.each(hostile)('a server with a stream of the kind "%s" gets no message', async (name) => {
  const said = await readToolText(callModern(ambit.mcp(name), token, 'echo', '{}'));
  expect(said).toMatch(/^UPSTREAM_(FAILED|TOO_LARGE): /);
  if (name !== 'endless') expect(said).toMatch(/address for messages.* The call was not sent\. Check the URL/);
  expect(upstream.posted).toEqual([]);
});
