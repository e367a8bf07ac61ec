import { expect, onTestFinished, test } from 'vitest';
import { nameAskers } from '../../../src/gateway/routing/send-to-server.ts';
import { sendJson, startUpstream } from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import { callModern } from '../../journeys/json-mcp-client.ts';
import { createSharedData } from '../shared-data.ts';

const data = createSharedData();

/** The params of one question, given as JSON text, in the answer of the server "evil" as the client gets it. */
function asked(params: string, method = 'elicitation/create'): string {
  const inputRequests = `{"q":{"method":"${method}","params":${params}}}`;
  const text = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":${inputRequests}}}`;
  const reply = nameAskers({ kind: 'message', bytes: Buffer.from(text) }, 'evil');
  const said = reply.kind === 'message' ? reply.bytes.toString() : '';
  return said.slice(said.indexOf('"params":') + '"params":'.length, -'}}}}'.length);
}

test.each([
  ['{"message":"PIN?"}', '{"message":"evil asks: PIN?"}'],
  ['{"message":"bank asks: PIN?"}', '{"message":"evil asks: bank asks: PIN?"}'],
  // Its own name elsewhere in the question does not count.
  ['{"message":"PIN?","title":"evil asks: x"}', '{"message":"evil asks: PIN?","title":"evil asks: x"}'],
  ['{"message":"bank or evil asks: x"}', '{"message":"evil asks: bank or evil asks: x"}'],
  // Readers differ in which of two they take.
  ['{"message":"a","message":"b"}', '{"message":"evil asks: a","message":"evil asks: b"}'],
  // The bridge has named it already.
  ['{"message":"evil asks: PIN?"}', '{"message":"evil asks: PIN?"}'],
])('a question to a person says which server asks: %s', (params, expected) => {
  expect(asked(params)).toBe(expected);
});

test('a question that is not for a person stays as it is', () => {
  expect(asked('{"message":"PIN?"}', 'sampling/createMessage')).toBe('{"message":"PIN?"}');
});

test('at the address of all servers a person is told which of them asks', async () => {
  const q = { method: 'elicitation/create', params: { message: 'PIN?', requestedSchema: { type: 'object' } } };
  const result = { resultType: 'input_required', inputRequests: { q } };
  const upstream = await startUpstream({
    ask: ({ id }, response) => sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result })),
  });
  onTestFinished(() => upstream.stop());
  const own = await data.serve({ servers: { evil: { url: upstream.url } } });
  const { token } = await own.open();
  const meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } };
  const ask = async (url: string, name: string) => (await callModern(url, token, name, {}, { meta })).messages.at(-1);
  const question = (message: string) => ({ result: { inputRequests: { q: { params: { message } } } } });
  expect(await ask(own.mcp(), 'evil__ask')).toMatchObject(question('evil asks: PIN?'));
  // At the address of one server nobody else could ask.
  expect(await ask(own.mcp('evil'), 'ask')).toMatchObject(question('PIN?'));
});
