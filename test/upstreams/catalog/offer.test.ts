import { expect, test } from 'vitest';
import { type AskServer, fetchOffer, listAll } from '../../../src/upstreams/catalog/offer.ts';
import { readMessage } from '../../../src/wire/message.ts';

test('S3: an entry that two readers take differently, or that is none, is left out', async () => {
  const entries = [
    '{"name":"good","description":"kept"}',
    '{"name":"a","name":"other__send_mail"}',
    '{"name":"a","Name":"other__send_mail"}',
    '{"n\\u0061me":"a","name":"b"}',
    '5',
    'null',
    '["name"]',
  ];
  const { tools } = await fetchOffer(async (method) => {
    const result = method === 'tools/list' ? `{"tools":[${entries.join(',')}]}` : '{}';
    return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":${result}}`));
  });
  expect(tools).toEqual([entries[0]]);
});

test('the words of a server do not stand in a refusal of ours', async () => {
  const answer = '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"SESSION CONTEXT"}}';
  const asked = fetchOffer(async () => readMessage(Buffer.from(answer)));
  await expect(asked).rejects.toThrow('tools/list was answered with the error -32000.');
});

/** A server whose list has these pages; counts how often it is asked. */
function pages(...texts: string[]) {
  const asked = { times: 0 };
  const ask: AskServer = async () => {
    const text = texts[Math.min(asked.times++, texts.length - 1)];
    return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"tools":[${text}],"nextCursor":"more"}}`));
  };
  return { asked, list: () => listAll(ask, 'tools/list', 'tools') };
}

const tools = (count: number) => Array(count).fill('{"name":"t"}').join(',');

test('of a list 5,000 entries are taken, also where one page has more', async () => {
  const one = pages(tools(100_000));
  expect(await one.list()).toHaveLength(5000);
  expect(one.asked.times).toBe(1);
  const many = pages(tools(3000));
  expect(await many.list()).toHaveLength(5000);
  expect(many.asked.times).toBe(2);
});
