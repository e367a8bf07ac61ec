import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { inBothEras } from './both-eras.ts';
import { callModern, initialize, openClient, outcome, post } from './mcp-calls.ts';
import { fixture, type Patient, peakMbDuring, startPatient } from './vital-signs.ts';

const soon = { timeoutSeconds: 1 };
const pad = 'x'.repeat(2 << 20);
/** More than is kept for a server that does not read. */
const crowd = 20;
let patient: Patient;

beforeAll(async () => {
  patient = await startPatient({
    processes: { startSeconds: 1 },
    servers: {
      late: fixture('answers-late.js', soon),
      deaf: fixture('stops-reading.js', soon),
      mute: fixture('closes-stdout.js', { timeoutSeconds: 20 }),
      dead: fixture('never-reads.js', soon),
      'dead-modern': fixture('never-reads.js', { ...soon, era: 'modern' }),
    },
  });
  await patient.expectWell();
});
afterEach(() => patient.expectWell());
afterAll(() => patient?.stop());

describe.each(inBothEras(() => patient))('%s era', (_era, call) => {
  test('silence is UPSTREAM_TIMEOUT; the late answer is dropped and hurts nobody', async () => {
    expect(await call('late', 'hold', {}, 'same')).toBe('!UPSTREAM_TIMEOUT');
    expect(await call('late', 'release', { text: 'in time' }, 'same')).toBe('in time');
    expect(await call('late', 'echo', { text: 'next' }, 'same')).toBe('next');
  });

  test('a server that closes its output but lives is replaced', async () => {
    expect(await call('mute', 'close')).toBe('!UPSTREAM_FAILED');
    expect(await call('mute', 'echo', { text: 'again' })).toBe('again');
  });

  test('a server that stops reading: OVERLOADED or UPSTREAM_TIMEOUT, and bounded memory', async () => {
    expect(await call('deaf', 'stop')).toBe('stopped');
    const before = patient.memoryMb();
    const outcomes = new Set<string>();
    const pouring = (async () => {
      for (let round = 0; round < counts(1, 16); round++) {
        const all = Array.from({ length: crowd }, (_, id) => call('deaf', 'echo', { pad }, id));
        for (const said of await Promise.all(all)) outcomes.add(said);
      }
    })();
    const peak = await peakMbDuring(patient, pouring);
    expect([...outcomes].sort()).toEqual(['!OVERLOADED', '!UPSTREAM_TIMEOUT']);
    expect(peak - before).toBeLessThan(250);
  });
});

test('notifications for a server that has stopped reading are dropped, not kept', async () => {
  const { token } = await patient.session();
  const client = await openClient(patient.mcp('deaf'), token);
  expect(outcome(await client.call('stop'))).toBe('stopped');
  const before = await patient.heldMb();
  for (let sent = 0; sent < counts(30, 1000); sent++) {
    expect((await client.send({ method: 'notifications/of/the/client', params: { pad } })).status).toBe(202);
  }
  // It keeps 32 MB, and what came last.
  expect((await patient.heldMb()) - before).toBeLessThan(45);
});

test('a server that never says anything: a timeout, whatever is asked of it', async () => {
  const told = await Promise.all([
    callModern(patient.mcp('dead-modern'), patient.token, 'echo'),
    post(patient.mcp('dead'), patient.token, JSON.stringify(initialize())),
    // Whoever does not answer when asked for its era is taken for one of the handshake era, for a while.
    callModern(patient.mcp('dead'), patient.token, 'echo'),
  ]);
  expect(told.map(outcome)).toEqual(['!UPSTREAM_TIMEOUT', '!UPSTREAM_TIMEOUT', '!UPSTREAM_TIMEOUT']);
});
