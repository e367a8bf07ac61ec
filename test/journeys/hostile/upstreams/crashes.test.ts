import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { callModern, initializeRequest, openClient, post, readOutcome } from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitUntilAtMost } from '../../wait-until.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { expectDiscreet, fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

let ambit: WatchedAmbit;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-crashes-'));
  const plain = join(folder, 'plain.txt');
  writeFileSync(plain, 'not a program');
  chmodSync(plain, 0o644);
  const garbage = join(folder, 'garbage');
  writeFileSync(garbage, Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0, 0, 0]));
  chmodSync(garbage, 0o755);
  ambit = await startWatchedAmbit({
    servers: {
      crashes: fixtureServer('crashes-in-the-middle.js'),
      three: fixtureServer('exits-after-three-calls.js'),
      once: fixtureServer('exits-at-once.js', { era: 'modern' }),
      never: fixtureServer('exits-at-once.js'),
      missing: { command: join(folder, 'no-such-program'), era: 'modern' },
      unknown: { command: 'no-such-program-on-the-path', era: 'modern' },
      plain: { command: plain, era: 'modern' },
      garbage: { command: garbage, era: 'modern' },
      folder: { command: folder, era: 'modern' },
    },
  });
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe.each(callersOfBothEras(() => ambit))('%s era', (era, call) => {
  test('a crash in the middle of a call: all that waited fail, and the next call is served', async () => {
    for (let round = 0; round < counts(1, 20); round++) {
      const waiting = Array.from({ length: 5 }, (_, id) => call('crashes', 'hang', {}, id));
      const all = await Promise.all([...waiting, call('crashes', 'crash', {}, 'c')]);
      expect(all).toEqual(Array(6).fill('!UPSTREAM_FAILED'));
      // No new handshake by the client: it does not even notice that there was a new process.
      expect(await call('crashes', 'echo', { text: 'again' })).toBe('again');
    }
    if (era === 'handshake') expect(await call('crashes', 'openings')).toBe('1');
  });

  test('a server that leaves after three calls serves more, but for those it left in', async () => {
    const outcomes: string[] = [];
    const whole = ['1', '2', '3', '!UPSTREAM_FAILED', '1', '2', '3', '!UPSTREAM_FAILED', '1', '2'];
    const expected = whole.slice(0, counts(5, 10));
    while (outcomes.length < expected.length) outcomes.push(await call('three', 'count'));
    expect(outcomes).toEqual(expected);
  });

  test('many calls at the moment of a crash: each is answered once, by an answer or as failed', async () => {
    const calls = Array.from({ length: counts(40, 1000) }, (_, id) =>
      call('crashes', id % 20 === 10 ? 'crash' : 'echo', { text: `t${id}` }, id),
    );
    for (const [id, said] of (await Promise.all(calls)).entries()) {
      expect(id % 20 === 10 ? ['!UPSTREAM_FAILED'] : [`t${id}`, '!UPSTREAM_FAILED']).toContain(said);
    }
    expect(await call('crashes', 'echo', { text: 'again' })).toBe('again');
  });
});

test.each(['missing', 'unknown', 'plain', 'garbage', 'folder', 'once'])(
  'a server that cannot be started (%s): UPSTREAM_FAILED in both eras, and no path is told',
  async (server) => {
    const said = await callModern(ambit.mcp(server), ambit.token, 'echo');
    expect(readOutcome(said)).toBe('!UPSTREAM_FAILED');
    expectDiscreet(ambit, said.text);
    expect(said.text).not.toContain(folder);
  },
);

test('a server that leaves at once refuses every handshake, and the client may try again', async () => {
  for (let round = 0; round < 2; round++) {
    const said = await post(ambit.mcp('never'), ambit.token, JSON.stringify(initializeRequest()));
    expect(readOutcome(said)).toBe('!UPSTREAM_FAILED');
  }
});

test('a server that leaves when it is asked for its era is taken for one of the handshake era, for a while', async () => {
  const said = await callModern(ambit.mcp('never'), ambit.token, 'echo');
  // So it gets a handshake over the bridge, and fails at that.
  expect([said.status, readOutcome(said)]).toEqual([200, '!UPSTREAM_FAILED']);
});

test('crashed processes leave nothing behind', async () => {
  await openClient(ambit.mcp('crashes'), ambit.token);
  await waitUntilAtMost(() => ambit.upstreams(), 6, maxWaitMs);
});
