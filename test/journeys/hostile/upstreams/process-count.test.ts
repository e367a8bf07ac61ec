import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { until } from '../../../sandbox/tagged-processes.ts';
import {
  callModern,
  initializeRequest,
  openClient,
  type PostAnswer,
  post,
  readOutcome,
} from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitForCount, waitUntilAtMost } from '../../wait-until.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

let ambit: WatchedAmbit;

beforeAll(async () => {
  // As dead as can be, and it takes no time to start.
  const dead = { command: '/bin/sleep', args: ['1000000'] };
  const waits = fixtureServer('well-behaved.js', { scope: 'call', era: 'handshake' });
  ambit = await startWatchedAmbit({ servers: { dead, waits } });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

/** Capabilities nobody declared before: such a client gets a process of its own. */
function peculiar(n: number): Record<string, unknown> {
  return { experimental: { [`capability-${n}`]: {} } };
}

test('a client that declares other capabilities each time, and leaves each time, does not pile up processes', async () => {
  const { token } = await ambit.session();
  const before = ambit.upstreams();
  for (let n = 0; n < counts(10, 1000); n++) {
    const client = await openClient(ambit.mcp('calm'), token, peculiar(n));
    await client.leave();
  }
  await waitUntilAtMost(() => ambit.upstreams(), before + 8, maxWaitMs);
});

test('S8: a crowd of handshakes with a server that does not answer meets a bound', async () => {
  const { token, id } = await ambit.session();
  const before = ambit.upstreams();
  const crowd = counts(20, 400);
  const told: string[] = [];
  const all = Array.from({ length: crowd }, async (_, n) => {
    told.push(readOutcome(await post(ambit.mcp('dead'), token, JSON.stringify(initializeRequest(peculiar(n))))));
  });
  await waitForCount(() => told.length, crowd - 8, maxWaitMs);
  expect(new Set(told)).toEqual(new Set(['!OVERLOADED']));
  expect(ambit.upstreams() - before).toBeLessThanOrEqual(8);
  await ambit.cli('session', 'end', id);
  await Promise.all(all);
  expect(new Set(told)).toEqual(new Set(['!OVERLOADED', '!SESSION_ENDED']));
  await waitUntilAtMost(() => ambit.upstreams(), before, maxWaitMs);
});

test('S8: one token has no more processes of a server than it may, whatever it calls by and declares', async () => {
  const { token } = await ambit.session();
  const others = ambit.pids();
  const url = ambit.mcp('waits');
  const told: string[] = [];
  const said = async (answer: Promise<PostAnswer>) => void told.push(readOutcome(await answer));
  const clients = await Promise.all([0, 1].map((n) => openClient(url, token, peculiar(n))));
  const all = Array.from({ length: counts(8, 100) }, (_, n) => {
    const meta = { 'io.modelcontextprotocol/clientCapabilities': peculiar(n) };
    const modern = callModern(url, token, 'wait', {}, { id: n, meta });
    return [modern, ...clients.map((client) => client.call('wait', {}, n))].map(said);
  }).flat();
  await waitForCount(() => told.length, all.length - 8, maxWaitMs);
  expect(new Set(told)).toEqual(new Set(['!OVERLOADED']));
  const own = () => ambit.pids().filter((pid) => !others.includes(pid));
  await until(
    () => own().length >= 8,
    maxWaitMs,
    () => `${own().length} processes`,
  );
  expect(own()).toHaveLength(8);
  // Who was killed has given up its place.
  for (const pid of own()) process.kill(pid, 'SIGKILL');
  await Promise.all(all);
  expect(told.filter((each) => each === '!UPSTREAM_FAILED')).toHaveLength(8);
  expect(readOutcome(await callModern(url, token, 'echo', { text: 'again' }))).toBe('again');
});
