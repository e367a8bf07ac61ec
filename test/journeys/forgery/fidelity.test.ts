import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { valueText } from '../../protocol/json/json-texts.ts';
import type { Exchange } from '../http-exchange.ts';
import { callModern, connectHandshake, modernMeta, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;

beforeAll(async () => {
  attacked = await startRecordedGateway();
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

const values = [
  ...[
    '9007199254740993',
    '-9223372036854775808',
    '123456789012345678901234567890',
    '-0',
    '0.10',
    '1E5',
    '1e+05',
    '1e400',
  ],
  ...['{"b":1,"a":2,"1":3,"0":4}', '{"a":1,"a":2,"A":3,"\\u0061":4}', '{"__proto__":{"x":1},"constructor":null,"":0}'],
  ...[
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
    '"😀"',
    '"é"',
    '"e\u0301"',
    '"\u2028\u2029"',
    '"\\/\\u0000"',
  ],
  ...['"\u200b\u202e\ufeff"', '"\\u003cscript>"', '"<>&\'"', '[ ]', '{ }', '[ 1 ,\t2 ]', '"data: x\\n\\nevent: y"'],
];

const eras = {
  modern: async (url: string) => (name: string, args: string) => callModern(url, token, name, args),
  handshake: async (url: string) => (await connectHandshake(url, token)).call,
} as const;
const cells = (['pipe', 'web'] as const).flatMap((server) =>
  (['modern', 'handshake'] as const).map((era) => [server, era] as const),
);

describe.each(cells)('byte for byte through %s in the %s era', (server, era) => {
  // Two of the four have each transport and each era once. In `npm test` one such half gets each second value, the other
  // half the values between; the proof sends everything through all four.
  const half = (server === 'pipe') === (era === 'modern') ? 0 : 1;
  let call: (name: string, args: string) => Promise<Exchange>;

  beforeAll(async () => {
    call = await eras[era](attacked[server]);
  });

  async function argumentsSeen(args: string): Promise<string> {
    const raw = await readToolText(call('echo', args));
    return raw.slice(raw.indexOf('"arguments":') + 12, raw.lastIndexOf(',"_meta":'));
  }

  async function resultSeen(result: string): Promise<string> {
    const lines = [`{"jsonrpc":"2.0","id":$ID,"result":${result.replaceAll('$', '\\u0024')}}`];
    const got = (await (await call('say', JSON.stringify({ lines }))).rest()).at(-1) ?? '';
    expect(got.startsWith('{"jsonrpc":"2.0","id":1,"result":')).toBe(true);
    return got.slice('{"jsonrpc":"2.0","id":1,"result":'.length, -1);
  }

  test.each(values.filter((_, index) => proof || index % 2 === half))('%s', async (value) => {
    expect(await argumentsSeen(`{"v":${value}}`)).toBe(`{"v":${value}}`);
    expect(await resultSeen(`{"content":[],"v":${value},"w":1}`)).toBe(`{"content":[],"v":${value},"w":1}`);
  });

  test.runIf(proof || half === 0)('whatever JSON can hold', async () => {
    const odd = fc.array(valueText, { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(odd, async (all) => {
        // Line breaks between tokens are the next test's.
        const text = `{"v":[${all.join(',').replace(/[\r\n]/g, ' ')}]}`;
        expect(await argumentsSeen(text)).toBe(text);
        const result = text.replaceAll('$', '\\u0024');
        expect(await resultSeen(result)).toBe(result);
      }),
      { numRuns: counts(10, 500), endOnFailure: true },
    );
  });

  // A line on stdio, and an event of a stream, is one line: there, and only there, a line break becomes a blank.
  test('any layout of the JSON text', async () => {
    const pretty = '{\r\n\t"a" : [\n 1 ,\n 2 ],\n "b" : { }\n}';
    const flat = pretty.replace(/[\r\n]/g, ' ');
    expect(await argumentsSeen(pretty)).toBe(server === 'web' ? pretty : flat);
    if (server === 'pipe') return;
    const body = `{\n "jsonrpc" : "2.0",\n "id" : $ID,\n "result" : ${pretty}\n}\n`;
    const sent = await call('reply', JSON.stringify({ body }));
    expect(await sent.rest()).toEqual([body.replace('$ID', '1').trimEnd()]);
    const progress = '{"jsonrpc":"2.0","method":"notifications/x","params":\n{}}';
    const lines = [progress, `{"jsonrpc":"2.0","id":$ID,"result":${pretty}}`];
    const streamed = await (await call('say', JSON.stringify({ lines }))).rest();
    // In a stream of events a carriage return before the line break belongs to the line end.
    const once = pretty.replace(/\r?\n/g, ' ');
    expect(streamed).toEqual([progress.replace('\n', ' '), `{"jsonrpc":"2.0","id":1,"result":${once}}`]);
  });

  test.runIf(proof || half === 0)('three megabytes there, five megabytes back', async () => {
    const there = `{"v":"${'é\\n'.repeat(750_000)}"}`;
    expect(Buffer.byteLength(there)).toBeGreaterThan(2_900_000);
    expect((await argumentsSeen(there)) === there).toBe(true);
    const text = `"${'x\\u0000é😀'.repeat(192_500)}"`;
    const made = await call('enlarge', JSON.stringify({ text, times: 2 }));
    const back = (await made.rest()).at(-1) ?? '';
    expect(Buffer.byteLength(back)).toBeGreaterThan(5_000_000);
    expect(back === `{"jsonrpc":"2.0","id":1,"result":{"content":[],"v":[${text},${text}]}}`).toBe(true);
  });

  test('errors with codes and data nobody knows', async () => {
    for (const error of [
      '{"code":-32042,"message":"","data":{"n":9007199254740993,"requestState":"s","taskId":"t","_meta":{"x":1}}}',
      '{"code":4711,"message":"é","data":[1E5,-0],"more":{"a":1,"a":2}}',
      '{"code":-32002,"message":"x"}',
      '{"code":1.5,"message":null}',
    ]) {
      const lines = [`{"jsonrpc":"2.0","id":$ID,"error":${error},"extra":1}`];
      const sent = await call('say', JSON.stringify({ lines }));
      expect((await sent.rest()).at(-1)).toBe(`{"jsonrpc":"2.0","id":1,"error":${error},"extra":1}`);
    }
  });

  test('results with fields and types nobody knows', async () => {
    for (const result of [
      '{"resultType":"from the future","x":{"y":1}}',
      '[1,2]',
      '"text"',
      'null',
      '{"content":"odd"}',
    ]) {
      expect(await resultSeen(result)).toBe(result);
    }
  });
});

describe.each(['pipe', 'web'] as const)('methods nobody knows, through %s', (server) => {
  const params = '"x":9007199254740993,"Name":"a","arguments":[1],"cursor":{"y":-0}';

  test('modern', async () => {
    const { result } = await readAnswer(sendModern(attacked[server], token, { method: 'acme/Do it', params }));
    expect(result?.raw).toContain(`"method":"acme/Do it","params":{${params},"_meta":{${modernMeta}}}}`);
  });

  test('handshake, with and without params', async () => {
    const client = await connectHandshake(attacked[server], token);
    const strange = `"method":"acme/é\\u0000","params":{${params}},"extra":{"a":1,"a":2}`;
    const { result } = await readAnswer(client.post(`{"jsonrpc":"2.0","id":"x",${strange}}`));
    expect(result?.raw).toMatch(/^\{"jsonrpc":"2\.0","id":\d+,/);
    expect(result?.raw).toContain(`${strange}}`);
    const bare = await readAnswer(client.post('{"jsonrpc":"2.0","id":"x","method":"acme/bare"}'));
    expect(bare.result?.raw).toContain('"method":"acme/bare"}');
  });
});
