import { expect, test } from 'vitest';
import { openBoundedGateway } from '../bounded-gateway.ts';
import type { RawMessage } from '../raw-client.ts';

const on = openBoundedGateway();
const isRefused = ({ error, result }: RawMessage) => JSON.stringify(error ?? result).includes('QUOTA_EXCEEDED');

test('S7: requests that are no calls of tools have a pace of their own, and a flood does not fill the journal', async () => {
  await on.start('modern');
  const { id } = await on.gateway.createSession();
  const [client, lost] = [await on.connect(id, 'handshake', 'ambit'), await on.connect(id, 'modern', 'nobody')];
  const many = (send: () => Promise<RawMessage>, length = 200) => Promise.all(Array.from({ length }, send));
  let sent = 0;
  let refused: RawMessage[] = [];
  const began = performance.now();
  while (refused.length === 0 && sent < 60_000) {
    const answers = await many(() => client.request('ping'), 3100);
    sent += answers.length;
    refused = answers.filter(isRefused);
  }
  const seconds = (performance.now() - began) / 1000;
  expect(refused[0]).toMatchObject({
    error: { message: expect.stringMatching(/^QUOTA_EXCEEDED: .* requests per minute/) },
  });
  expect(refused[0]?.error).toMatchObject({ data: { code: 'QUOTA_EXCEEDED', retryAfterMs: expect.any(Number) } });
  expect(sent - refused.length).toBeGreaterThanOrEqual(6000);
  expect(sent - refused.length).toBeLessThanOrEqual(6001 + 100 * seconds);
  // What is refused before it is counted leaves few lines, and a number.
  const [lists, calls] = await Promise.all([
    many(() => lost.request('tools/list')),
    many(() => lost.request('tools/call', { name: 'x' })),
  ]);
  expect(lists.some(isRefused)).toBe(true);
  expect(JSON.stringify(calls[0])).toContain('SERVER_NOT_AVAILABLE');
  // Calls of tools have their own quota, which the other requests leave untouched.
  expect(await client.call('session_info', { session: 'current' })).toContain(id);
  const { id: other } = await on.gateway.createSession();
  expect(await (await on.connect(other, 'handshake', 'ambit')).request('ping')).toMatchObject({ result: {} });
  const stranger = await on.connect(other, 'modern', 'nobody');
  await many(() => stranger.request('tools/list'));
  await on.close();
  expect(on.journal(other).filter(({ outcome }) => outcome === 'SERVER_NOT_AVAILABLE').length).toBeLessThan(100);
  const lines = on.journal(id);
  const [told, counted] = ['call', 'refusal'].map((kind) => lines.filter((line) => line['kind'] === kind));
  const unserved = told?.filter(({ outcome }) => outcome !== 'ok') ?? [];
  // Calls of tools are counted by a quota, so each of them has a line.
  expect(unserved.filter(({ method }) => method === 'tools/call')).toHaveLength(calls.length);
  expect(unserved.filter(({ method }) => method !== 'tools/call').length).toBeLessThan(100);
  // Each refusal has a line, or is counted in one.
  const further = counted?.reduce((sum, line) => sum + Number(line['further']), 0) ?? 0;
  expect(unserved.length + further).toBe(refused.length + lists.length + calls.length);
});
