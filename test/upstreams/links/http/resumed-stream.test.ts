import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Channel } from '../../../../src/protocol/channel.ts';
import { createStreamPosition, resumeStream } from '../../../../src/upstreams/links/http/send-request.ts';
import { callModern, connectHandshake, patience, readToolText } from '../../../journeys/raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../../../journeys/start-embedded-ambit.ts';
import { startPollingServer } from './typescript-sdk-polling.ts';

let upstream: Awaited<ReturnType<typeof startPollingServer>>;
let ambit: EmbeddedAmbit;
let token = '';
beforeAll(async () => {
  upstream = await startPollingServer();
  ambit = await startEmbeddedAmbit({
    servers: {
      x: { url: upstream.url, era: 'handshake' },
      y: { url: upstream.url, era: 'handshake', timeoutSeconds: 1 },
    },
  });
  ({ token } = await ambit.open());
});
beforeEach(() => {
  upstream.resumed.length = 0;
  upstream.received.length = 0;
});
afterAll(async () => {
  await ambit?.stop();
  upstream?.close();
});

const progressOf = (messages: readonly string[]) =>
  messages.flatMap((each) => JSON.parse(each).params?.progress ?? []) as number[];

test('a call whose stream the server closes early is resumed until its answer, with each message once', async () => {
  const client = await connectHandshake(ambit.mcp('x'), token, '2025-06-18');
  const told = await (await client.call('slow', '{}', { meta: '"progressToken":"p"' })).rest();
  expect(progressOf(told)).toEqual([1, 2]);
  expect(told.at(-1)).toContain('slow done');
  const ids = upstream.resumed.map((each) => each?.replace(/\d+(?=\/\d$)/, 'N'));
  expect(ids).toEqual(['slow/N/0', 'slow/N/1']);
  expect(upstream.received.filter((each) => each === 'slow')).toHaveLength(1);
});

test('a modern client at /mcp gets the same', async () => {
  const sent = await callModern(`${ambit.url}/mcp`, token, 'x__slow', '{}', { meta: '"progressToken":7' });
  const told = await sent.rest();
  expect(progressOf(told)).toEqual([1, 2]);
  expect(told.at(-1)).toContain('slow done');
  expect(upstream.received.filter((each) => each === 'slow')).toHaveLength(1);
});

test('a connection that breaks inside an event is resumed after the last whole event', async () => {
  const client = await connectHandshake(ambit.mcp('x'), token);
  expect(await readToolText(client.call('breaks', '{}'))).toBe('breaks done');
  expect(upstream.resumed).toEqual([expect.stringMatching(/^breaks\/\d+\/0$/)]);
});

test('where the server cannot resume, the caller learns that the call may have taken effect', async () => {
  const client = await connectHandshake(ambit.mcp('x'), token, '2025-06-18');
  const said = await readToolText(client.call('forgets', '{}'));
  expect(said).toMatch(/^UPSTREAM_FAILED: .* before its answer was complete\. The call may have taken effect\. Check/);
  expect(said).not.toContain('Try again');
  expect(upstream.resumed).toHaveLength(1);
});

test('a resumed call that times out is cancelled', async () => {
  const client = await connectHandshake(ambit.mcp('y'), token, '2025-06-18');
  const said = await readToolText(client.call('silent', '{}'));
  expect(said).toMatch(/^UPSTREAM_TIMEOUT: .* The call may have taken effect\. Check .*servers\.y\.timeoutSeconds/);
  await vi.waitUntil(() => upstream.received.includes('notifications/cancelled'), patience);
});

test('a client that comes back at once ends only the first wait of a call', async () => {
  vi.useFakeTimers();
  try {
    const position = createStreamPosition();
    position.onRetry(5000);
    const channel = { suspend: (_ms: number, onBack: () => void) => onBack() } as Partial<Channel> as Channel;
    const opened: number[] = [];
    const open = () => {
      opened.push(Date.now());
      return { response: Promise.resolve({ statusCode: 200 }), abort() {} } as never;
    };
    const began = Date.now();
    for (const isFirst of [true, false]) {
      const resumed = resumeStream(position, open, () => true, vi.fn(), channel, isFirst);
      await vi.advanceTimersByTimeAsync(5000);
      await resumed;
    }
    expect(opened.map((at) => at - began)).toEqual([0, 10_000]);
  } finally {
    vi.useRealTimers();
  }
});
