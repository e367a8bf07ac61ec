import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Attacked, startAttacked } from '../journeys/forgery/attacked.ts';
import { answerOf, callModern, shakeHands } from '../journeys/forgery/speaking.ts';

let attacked: Attacked;

beforeAll(async () => {
  attacked = await startAttacked({
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
    const client = await shakeHands(attacked[server], token);
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
    const { result } = await answerOf(Promise.race(calls));
    expect(result).toMatchObject({ isError: true, _meta: { 'ambit/error': { code: 'OVERLOADED' } } });
  });
});

test('sessions.metadataBytes bounds the metadata of a session, as JSON', async () => {
  const note = (length: number) => attacked.open({ metadata: { note: 'x'.repeat(length) } });
  await expect(note(10)).rejects.toMatchObject({ code: 'METADATA_TOO_LARGE' });
  expect(await note(9)).toMatchObject({ id: expect.any(String) });
});
