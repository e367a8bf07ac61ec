import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { until } from '../../../sandbox/tagged-processes.ts';
import { callModern, modernHeaders, modernRequest, openClient, readOutcome } from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitForCount } from '../../wait-until.ts';
import { openRawSocket, type RawSocket, writeHead } from '../raw-socket.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import { startUpstream, type Upstream } from '../upstreams/start-http-upstream.ts';
import { startRun } from './start-run.ts';

let ambit: WatchedAmbit;
let upstream: Upstream;
let closed = 0;

beforeAll(async () => {
  upstream = await startUpstream({
    wait: (_asked, response) => void response.on('close', () => closed++),
  });
  ambit = await startWatchedAmbit({ servers: { remote: { url: upstream.url } } });
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  await upstream?.stop();
});

interface Told {
  readonly cancelled: number[];
  readonly waiting: number[];
  /** Came before the call they are about, so that they stopped nothing. */
  readonly strays: number[];
}

function waitCall(token: string): string {
  const body = JSON.stringify(modernRequest('w', 'tools/call', { name: 'wait', _meta: { progressToken: 'p' } }));
  const lines = { authorization: `Bearer ${token}`, ...modernHeaders('tools/call', 'wait') };
  return writeHead('/mcp/calm', { ...lines, 'content-length': body.length }) + body;
}

/** Asks until the server has heard what it should: cancellations are nobody's answer. */
async function toldUntil(ask: () => Promise<string>, enough: (told: Told) => boolean): Promise<Told> {
  for (;;) {
    const told = JSON.parse(await ask()) as Told;
    if (enough(told)) return told;
  }
}

describe('modern era: whoever disconnects has cancelled', () => {
  test('in the middle of a call', async () => {
    const { token } = await ambit.session();
    const ask = async () => readOutcome(await callModern(ambit.mcp('calm'), token, 'told'));
    const wires: RawSocket[] = [];
    for (let n = 0; n < counts(5, 100); n++) {
      const wire = await openRawSocket(ambit.url);
      await wire.say(waitCall(token));
      await wire.hears(/notifications\/progress/);
      wires.push(wire);
    }
    wires.forEach((wire, index) => void (index % 2 === 0 ? wire.reset() : wire.socket.destroy()));
    const told = await toldUntil(ask, ({ cancelled }) => cancelled.length === wires.length);
    expect(told.cancelled.sort()).toEqual(told.waiting.sort());
  });

  test('while its server is still starting: the call is cancelled, or never made', async () => {
    for (let round = 0; round < counts(2, 30); round++) {
      const { token } = await ambit.session();
      const wire = await openRawSocket(ambit.url);
      await wire.say(waitCall(token));
      wire.reset();
      const ask = async () => readOutcome(await callModern(ambit.mcp('calm'), token, 'told'));
      const told = await toldUntil(ask, ({ cancelled, waiting }) => cancelled.length === waiting.length);
      expect(told).toEqual({ cancelled: told.waiting, waiting: told.waiting, strays: [] });
    }
  });

  test('over HTTP the connection to the upstream is closed', async () => {
    const gone = new AbortController();
    const calling = callModern(ambit.mcp('remote'), ambit.token, 'wait', {}, { signal: gone.signal });
    await until(
      () => upstream.seen.includes('POST tools/call wait'),
      maxWaitMs,
      () => 'the call did not arrive',
    );
    gone.abort();
    await expect(calling).rejects.toThrow();
    await waitForCount(() => closed, 1, maxWaitMs);
  });
});

describe('handshake era: a client says so', () => {
  test('the notification reaches the server under the id the server knows', async () => {
    const { token } = await ambit.session();
    const [first, second] = [await openClient(ambit.mcp('calm'), token), await openClient(ambit.mcp('calm'), token)];
    const ask = async () => readOutcome(await first.call('told', {}, 'told'));
    // Both clients use the same id for calls of the same process.
    const mine = first.call('wait', {}, 'same');
    await toldUntil(ask, ({ waiting }) => waiting.length === 1);
    const theirs = second.call('wait', {}, 'same');
    const { waiting } = await toldUntil(ask, (told) => told.waiting.length === 2);
    const cancel = { method: 'notifications/cancelled', params: { requestId: 'same', reason: 'enough' } };
    expect((await second.send(cancel)).status).toBe(202);
    const told = await toldUntil(ask, ({ cancelled }) => cancelled.length > 0);
    expect(told.cancelled).toEqual([waiting[1]]);
    expect((await theirs).messages.filter((message) => message.id !== undefined)).toEqual([]);
    expect((await first.send(cancel)).status).toBe(202);
    await mine;
    expect((await toldUntil(ask, ({ cancelled }) => cancelled.length > 1)).cancelled).toEqual([waiting[1], waiting[0]]);
  });

  test('ids that were never given, or given by others, cancel nothing', async () => {
    const { token } = await ambit.session();
    const client = await openClient(ambit.mcp('calm'), token);
    const ask = async () => readOutcome(await client.call('told', {}, 'told'));
    void client.call('wait', {}, 7);
    const { waiting } = await toldUntil(ask, (told) => told.waiting.length === 1);
    for (const requestId of [waiting[0], '7', 7.5, null, { id: 7 }, [7], -7, '', undefined]) {
      if (requestId === 7) continue;
      expect((await client.send({ method: 'notifications/cancelled', params: { requestId } })).status).toBe(202);
    }
    expect(JSON.parse(await ask())).toEqual({ cancelled: [], waiting, strays: [] });
    await client.send({ method: 'notifications/cancelled', params: { requestId: 7 } });
    expect((await toldUntil(ask, ({ cancelled }) => cancelled.length > 0)).cancelled).toEqual(waiting);
  });

  test('whoever only disconnects has not cancelled', async () => {
    const { token } = await ambit.session();
    const client = await openClient(ambit.mcp('calm'), token);
    const gone = new AbortController();
    const calling = client.send({ id: 7, method: 'tools/call', params: { name: 'wait' } }, gone.signal);
    const ask = async () => readOutcome(await client.call('told', {}, 'told'));
    await toldUntil(ask, ({ waiting }) => waiting.length === 1);
    gone.abort();
    await expect(calling).rejects.toThrow();
    expect((JSON.parse(await ask()) as Told).cancelled).toEqual([]);
  });

  test('over HTTP the upstream is told, and the connection is closed', async () => {
    const client = await openClient(ambit.mcp('remote'), ambit.token);
    const before = closed;
    const calling = client.call('wait', {}, 'mine');
    await until(
      () => upstream.asked.at(-1)?.params?.name === 'wait',
      maxWaitMs,
      () => 'the call did not arrive',
    );
    const { id } = upstream.asked.at(-1) as { id: unknown };
    await client.send({ method: 'notifications/cancelled', params: { requestId: 'mine' } });
    await calling;
    await until(
      () => closed === before + 1 && upstream.seen.includes('POST notifications/cancelled'),
      maxWaitMs,
      () => upstream.seen.join(),
    );
    const told = upstream.asked.find(({ method }) => method === 'notifications/cancelled');
    expect(told?.params).toMatchObject({ requestId: id });
  });
});

test('stdio: a modern client cancels by its own id', async () => {
  const run = await startRun();
  try {
    const say = (message: object) => run.say(`${JSON.stringify(message)}\n`);
    await say(modernRequest('w', 'tools/call', { name: 'wait' }));
    await say(modernRequest('before', 'tools/call', { name: 'told' }));
    const before = JSON.parse((await run.answer('before')).result?.content?.[0]?.text ?? '') as Told;
    expect([before.cancelled, before.waiting.length]).toEqual([[], 1]);
    await say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'w' } });
    await say(modernRequest('after', 'tools/call', { name: 'told' }));
    const after = JSON.parse((await run.answer('after')).result?.content?.[0]?.text ?? '') as Told;
    expect(after.cancelled).toEqual(before.waiting);
  } finally {
    await run.stop();
  }
});
