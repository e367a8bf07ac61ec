import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RecordedGateway, startRecordedGateway } from '../journeys/forgery/start-recorded-gateway.ts';
import { sendRaw } from '../journeys/http-exchange.ts';
import { bearerHeader, callModern, connectHandshake, readAnswer, sendModern } from '../journeys/raw-mcp-client.ts';

let attacked: RecordedGateway;

beforeAll(async () => {
  attacked = await startRecordedGateway({
    limits: { notificationsPerSecond: 1, pendingPerUpstream: 2 },
    sessions: { metadataBytes: 20 },
  });
});

afterAll(() => attacked?.stop());

describe.each(['pipe', 'web'] as const)('a server by %s', (server) => {
  test('gets through no more notifications than limits.notificationsPerSecond', async () => {
    const { token } = await attacked.open();
    const log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';
    const done = '{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}';
    const client = await connectHandshake(attacked[server], token);
    const began = performance.now();
    const heard = await (await client.call('say', JSON.stringify({ lines: [...Array(500).fill(log), done] }))).rest();
    const seconds = Math.ceil((performance.now() - began) / 1000);
    expect(heard.at(-1)).toContain('"result"');
    // A burst of twice the rate, then one each second: counted by the time it really took.
    expect(heard.length - 1).toBeGreaterThanOrEqual(2);
    expect(heard.length - 1).toBeLessThanOrEqual(2 + seconds);
  });

  test('has no more calls under way than limits.pendingPerUpstream', async () => {
    const { token } = await attacked.open();
    await (await callModern(attacked[server], token, 'echo', '{}')).rest();
    // The tool "slow" does not answer by itself: what is answered at once is what was refused.
    const calls = ['a', 'b', 'c'].map((key) => callModern(attacked[server], token, 'slow', JSON.stringify({ key })));
    const { result } = await readAnswer(Promise.race(calls));
    expect(result).toMatchObject({ isError: true, _meta: { 'ambit/error': { code: 'OVERLOADED' } } });
  });
});

test('sessions.metadataBytes bounds the metadata of a session, as JSON', async () => {
  const note = (length: number) => attacked.open({ metadata: { note: 'x'.repeat(length) } });
  await expect(note(10)).rejects.toMatchObject({ code: 'METADATA_TOO_LARGE' });
  expect(await note(9)).toMatchObject({ id: expect.any(String) });
});

describe('what a client says of itself', () => {
  const at = (server: string) => (server === '' ? `${attacked.ambit.url}/mcp` : attacked.ambit.mcp(server));
  const journal = () => readFileSync(join(attacked.ambit.dataDir, 'journal/journal.jsonl'), 'utf8');
  const places = {
    'a server by stdio': 'pipe',
    'a server by HTTP': 'web',
    'all servers': '',
    "Ambit's own tools": 'ambit',
  };

  test.each(Object.entries(places))('S8: is bounded in the handshake with %s', async (_, server) => {
    const { id, token } = await attacked.open();
    const initialize = (description: string) =>
      sendRaw(at(server), {
        headers: {
          ...bearerHeader(token),
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1","description":"${description}"}}}`,
      });
    const refused = await initialize('x'.repeat(65_536));
    expect(refused.headers['mcp-session-id']).toBeUndefined();
    expect(await readAnswer(refused)).toMatchObject({ error: { code: -32602 } });
    await expect.poll(journal).toMatch(new RegExp(`"sessionId":"${id}".*"method":"initialize".*"outcome":"-32602"`));
    expect((await initialize('x'.repeat(65_000))).headers['mcp-session-id']).toBeDefined();
  });

  test('S8: is bounded in each request of the modern era, and so is the level of a log', async () => {
    const { token } = await attacked.open();
    const key = '"io.modelcontextprotocol/clientInfo"';
    const meta = (length: number) => `${key}:{"name":"x","version":"1","description":"${'x'.repeat(length)}"}`;
    const ping = (length: number) => sendModern(attacked.pipe, token, { method: 'ping', meta: meta(length) });
    expect(await readAnswer(ping(65_536))).toMatchObject({ error: { code: -32602 } });
    expect(await readAnswer(ping(65_000))).toMatchObject({ id: 1, result: expect.anything() });
    const client = await connectHandshake(at(''), token);
    const level = (text: string) =>
      client.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"${text}"}}`);
    expect(await readAnswer(level('x'.repeat(64)))).toMatchObject({ error: { code: -32602 } });
    expect(await readAnswer(level('debug'))).toMatchObject({ result: {} });
  });
});
