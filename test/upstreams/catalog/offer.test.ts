import { expect, test } from 'vitest';
import { fetchOffer } from '../../../src/upstreams/catalog/offer.ts';
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
