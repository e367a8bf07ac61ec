import { expect, test } from 'vitest';
import { readMessage } from '../../../src/protocol/message.ts';
import { type AskServer, fetchList, fetchOffer } from '../../../src/upstreams/catalog/offer.ts';

test('S3: an ambiguous entry, or one that is no object, is left out', async () => {
  const entries = [
    '{"name":"good","description":"kept"}',
    '{"name":"a","name":"other__send_mail"}',
    '{"name":"a","Name":"other__send_mail"}',
    '{"n\\u0061me":"a","name":"b"}',
    '5',
    'null',
    '["name"]',
  ];
  const { tools, unclearTools } = await fetchOffer(async (method) => {
    const result = method === 'tools/list' ? `{"tools":[${entries.join(',')}]}` : '{}';
    return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":${result}}`));
  }, 'modern');
  expect(tools).toEqual([entries[0]]);
  expect(unclearTools).toBe(6);
});

test.each([
  ['modern', '{"extensions":{"io.modelcontextprotocol/tasks":{}}}', true],
  ['modern', '{"tasks":{}}', false],
  ['modern', '{"extensions":[]}', false],
  ['handshake', '{"tasks":{}}', true],
  ['handshake', '{"extensions":{"io.modelcontextprotocol/tasks":{}}}', false],
  ['handshake', undefined, undefined],
] as const)('a server of the %s era that declares %s has tasks: %s', async (era, capabilities, hasTasks) => {
  const answer = capabilities === undefined ? '"error":{"code":-32601}' : `"result":{"capabilities":${capabilities}}`;
  const plain = '"result":{}';
  const ask: AskServer = async (method) =>
    readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,${method === 'server/discover' ? answer : plain}}`));
  expect((await fetchOffer(ask, era)).hasTasks).toBe(hasTasks);
});

test('the error text of a server is not repeated', async () => {
  const answer = '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"SESSION CONTEXT"}}';
  const asked = fetchOffer(async () => readMessage(Buffer.from(answer)), 'modern');
  await expect(asked).rejects.toThrow('tools/list was answered with the error -32000.');
});

/** A server whose list is this page again and again; counts how often it is asked. */
function pages(entries: string) {
  const asked = { times: 0 };
  const page = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"tools":[${entries}],"nextCursor":"more"}}`));
  const ask: AskServer = async () => {
    asked.times++;
    return page;
  };
  return { asked, list: () => fetchList(ask, 'tools/list', 'tools') };
}

const tools = (count: number) => Array(count).fill('{"name":"t"}').join(',');

test('5,000 entries of a list are read, also when one page has more', async () => {
  const one = pages(tools(100_000));
  expect(await one.list()).toHaveLength(5000);
  expect(one.asked.times).toBe(1);
  const many = pages(tools(3000));
  expect(await many.list()).toHaveLength(5000);
  expect(many.asked.times).toBe(2);
});

test('16 MB of a list are read, in one page or in several', async () => {
  const tool = `{"name":"${'x'.repeat(4 << 20)}"}`;
  const many = pages(tool);
  expect(await many.list()).toHaveLength(3);
  expect(many.asked.times).toBe(4);
  const one = pages(Array(5).fill(tool).join(','));
  expect(await one.list()).toHaveLength(3);
  expect(one.asked.times).toBe(1);
  const empty = pages(`"${'x'.repeat(8 << 20)}"`);
  expect(await empty.list()).toEqual([]);
  expect(empty.asked.times).toBe(2);
});

test('values that are no objects are skipped', async () => {
  expect([...new Set(await pages('5,null,"t",[],{"name":"t"}').list())]).toEqual(['{"name":"t"}']);
});
