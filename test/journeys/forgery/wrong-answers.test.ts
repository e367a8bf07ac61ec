import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { callModern, connectHandshake, patience, readToolText } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let mine: string;
let theirs: string;

const forged = (id: string) =>
  `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","content":[{"type":"text","text":"forged"}]}}`;
const proper = forged('$ID').replace('forged', 'proper');

beforeAll(async () => {
  // Answers to the requests that it expects to get, before it gets them; the first one may be on its way already.
  const early = Array.from({ length: 30 }, (_, index) => forged(String(index + 2))).join('\n');
  attacked = await startRecordedGateway({
    servers: {
      early: { ...stdioRecorder, era: 'modern', env: { SPEAKS_FIRST: early } },
      patient: { ...stdioRecorder, timeoutSeconds: 30 },
    },
  });
  [mine, theirs] = (await Promise.all([attacked.open(), attacked.open()])).map(({ token }) => token) as [
    string,
    string,
  ];
});

afterAll(() => attacked?.stop());

const servers = ['pipe', 'web'] as const;

const lies: Record<string, string[]> = {
  'an id nobody has': [forged('999999'), forged('0'), forged('-1')],
  'the id as a string': [forged('"$ID"'), forged('"1"'), forged('"a"')],
  'an id that is no id': [forged('null'), forged('true'), forged('[]'), forged('1.5'), forged('1e3'), forged('{}')],
  'no id': ['{"jsonrpc":"2.0","result":{}}', '{"jsonrpc":"2.0","error":{"code":1,"message":"forged"}}'],
  'the id of a call long over': [forged('$PAST'), forged('$PAST')],
  'two ids': [forged('$ID,"id":1')],
  'another case of id': [forged('1').replace('"id"', '"ID"')],
  'result and error': [forged('$ID').replace('"result"', '"error":{"code":1,"message":"forged"},"result"')],
  'no message': [
    '{}',
    '7',
    'null',
    'forged',
    '{"jsonrpc":"2.0"',
    `[${forged('$ID')}]`,
    '{"jsonrpc":"1.0","id":$ID,"result":{}}',
  ],
  'a request of its own making': [
    '{"jsonrpc":"2.0","id":1,"method":"forged"}',
    '{"jsonrpc":"2.0","id":$ID,"method":"forged"}',
  ],
};

describe.each(servers)('%s answering with', (server) => {
  test.each(Object.keys(lies))('%s: dropped, the proper answer comes through', async (name) => {
    const args = JSON.stringify({ lines: [...lies[name]!, proper] });
    const modern = await (await callModern(attacked[server], mine, 'say', args)).rest();
    expect(modern.filter((text) => text.includes('forged'))).toEqual([]);
    expect(modern.at(-1)).toBe(proper.replace('$ID', '1'));
    const client = await connectHandshake(attacked[server], mine, '2025-11-25', '{}');
    const handshake = await (await client.call('say', args)).rest();
    expect(handshake.filter((text) => text.includes('"result"') && text.includes('forged'))).toEqual([]);
    expect(handshake.at(-1)).toBe(proper.replace('$ID', '1'));
  });

  test('two answers: the first counts, and the second answers no later call', async () => {
    const args = JSON.stringify({ lines: [proper, forged('$ID'), forged('$ID')] });
    for (let round = 0; round < 5; round++) {
      expect(await (await callModern(attacked[server], mine, 'say', args)).rest()).toEqual([
        proper.replace('$ID', '1'),
      ]);
      expect(await readToolText(callModern(attacked[server], mine, 'echo', '{"marker":"m"}'))).toContain(
        '"marker":"m"',
      );
    }
  });

  test('the ids of calls of other sessions: those calls go on', async () => {
    const stranger = await connectHandshake(attacked[server], theirs);
    const held = stranger.call('slow', `{"key":"${server}"}`);
    const lines = [...Array.from({ length: 60 }, (_, index) => forged(String(index + 1000))), proper];
    await (await callModern(attacked[server], mine, 'say', JSON.stringify({ lines }))).rest();
    const low = Array.from({ length: 60 }, (_, index) => forged(String(index)));
    await (await callModern(attacked[server], mine, 'say', JSON.stringify({ lines: [...low, proper] }))).rest();
    await expect.poll(() => readToolText(stranger.call('release', `{"key":"${server}"}`)), patience).toBe('released');
    expect(await readToolText(held)).toBe(`released ${server}`);
  });
});

test.each(servers)(
  'S3: an answer of %s that readers take differently ends the call, and nobody gets it',
  async (server) => {
    for (const key of ['content\\u0000', 'inputRequests\\u0000x', '_meta\\u200b']) {
      const lines = [forged('$ID').replace('"content"', `"${key}":{},"content"`)];
      const told = await (await callModern(attacked[server], mine, 'say', JSON.stringify({ lines }))).rest();
      expect(told.at(-1)).toContain('UPSTREAM_FAILED');
      expect(told.join()).not.toContain('forged');
    }
  },
);

test('over HTTP an answer only answers the request it came back on, within one session too', async () => {
  const held = callModern(attacked.web, mine, 'slow', '{"key":"same"}');
  await expect.poll(async () => JSON.stringify(await attacked.recordedOverHttp()), patience).toContain('same');
  const lines = [...Array.from({ length: 60 }, (_, index) => forged(String(index))), proper];
  const said = await (await callModern(attacked.web, mine, 'say', JSON.stringify({ lines }))).rest();
  expect(said).toHaveLength(1);
  expect(await readToolText(callModern(attacked.web, mine, 'release', '{"key":"same"}'))).toBe('released');
  expect(await readToolText(held)).toBe('released same');
});

test('over HTTP a plain answer under a wrong id is a failure, not a wait', async () => {
  for (const body of [forged('999999'), forged('"$ID"'), 'not json', '{"jsonrpc":"2.0","id":$ID}', '']) {
    const sent = await callModern(attacked.web, mine, 'reply', JSON.stringify({ body }));
    const text = (await sent.rest()).join();
    expect(text).toContain('UPSTREAM_FAILED');
    expect(text).not.toContain('forged');
  }
});

test('answers that come before their requests: none of them is used', async () => {
  for (let round = 1; round <= 30; round++) {
    const sent = callModern(attacked.ambit.mcp('early'), mine, 'echo', `{"marker":"round ${round}"}`);
    expect(await readToolText(sent)).toContain(`"round ${round}"`);
  }
});

test('an answer under the right id that cannot be read fails the call at once', async () => {
  const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
  const lines = [`{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"v":${deep}}}`];
  const sent = await callModern(attacked.ambit.mcp('patient'), mine, 'say', JSON.stringify({ lines }));
  expect((await sent.rest()).join()).toContain('UPSTREAM_FAILED');
});
