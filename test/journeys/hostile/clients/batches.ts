import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { initializeRequest, type PostAnswer, post } from '../../json-mcp-client.ts';
import { expectDiscreet, type WatchedAmbit } from '../start-watched-ambit.ts';
import { mutateText, mutation } from './mutations.ts';

export function testBatches(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;
  let headers: Record<string, string>;

  beforeAll(async () => {
    ambit = given();
    const opened = await post(ambit.mcp('calm'), ambit.token, JSON.stringify(initializeRequest({}, '2025-03-26')));
    headers = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
  });
  function send(body: string | Buffer): Promise<PostAnswer> {
    return post(ambit.mcp('calm'), ambit.token, body, headers);
  }

  function call(id: number): object {
    return { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'echo', arguments: { text: `t${id}` } } };
  }

  test('64 calls are answered, each under its own id', async () => {
    const said = await send(JSON.stringify(Array.from({ length: 64 }, (_, id) => call(id))));
    const answers = JSON.parse(said.text) as { id: number; result: { content: { text: string }[] } }[];
    expect(answers.map(({ id, result }) => `${id} ${result.content[0]?.text}`)).toEqual(
      Array.from({ length: 64 }, (_, id) => `${id} t${id}`),
    );
  });

  test.each([
    ['nothing', '[]'],
    ['one too many', JSON.stringify(Array.from({ length: 65 }, (_, id) => call(id)))],
    ['a million', `[${'{},'.repeat(1_000_000)}{}]`],
    ['a batch in a batch', JSON.stringify([[call(1)]])],
    ['a handshake', JSON.stringify([call(1), initializeRequest()])],
    ['numbers', '[1,2,3]'],
    ['no end', `[${JSON.stringify(call(1))}`],
    ['no comma', `[${JSON.stringify(call(1))}${JSON.stringify(call(2))}]`],
    ['something after it', `[${JSON.stringify(call(1))}]x`],
    ['100,000 brackets', '['.repeat(100_000)],
  ])('%s is 400 as a whole', async (_what, body) => {
    const said = await send(body);
    expect([said.status, said.messages[0]?.id]).toEqual([400, null]);
  });

  test('notifications only are taken note of', async () => {
    expect((await send('[{"jsonrpc":"2.0","method":"notifications/x"}]')).status).toBe(202);
  });

  test('batches damaged in any way', async () => {
    const text = JSON.stringify([call(1), { jsonrpc: '2.0', method: 'notifications/x' }, call(2)]);
    await fc.assert(
      fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 3 }), async (mutations) => {
        const said = await send(mutateText(text, mutations));
        expectDiscreet(ambit, said.text);
        expect([200, 202, 400]).toContain(said.status);
        for (const message of said.status === 200 ? [JSON.parse(said.text)].flat() : said.messages) {
          expect(message).toMatchObject({ jsonrpc: '2.0' });
        }
      }),
      { numRuns: counts(100, 10_000) },
    );
  });
}
