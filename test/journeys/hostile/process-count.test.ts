import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { until } from '../../runners/tagged-processes.ts';
import { patienceMs } from '../abandoned/probed-ambit.ts';
import { initialize, openClient, outcome, post } from './mcp-calls.ts';
import { type Patient, startPatient } from './vital-signs.ts';

let patient: Patient;

beforeAll(async () => {
  // As dead as can be, and it takes no time to start.
  patient = await startPatient({ servers: { dead: { command: '/bin/sleep', args: ['1000000'] } } });
  await patient.expectWell();
});
afterEach(() => patient.expectWell());
afterAll(() => patient?.stop());

/** Capabilities nobody declared before: such a client gets a process of its own. */
function peculiar(n: number): Record<string, unknown> {
  return { experimental: { [`capability-${n}`]: {} } };
}

test('a client that declares other capabilities each time, and leaves each time, does not pile up processes', async () => {
  const { token } = await patient.session();
  const before = patient.upstreams();
  for (let n = 0; n < counts(10, 1000); n++) {
    const client = await openClient(patient.mcp('calm'), token, peculiar(n));
    await client.leave();
  }
  await until(
    () => patient.upstreams() <= before + 8,
    patienceMs,
    () => `${patient.upstreams()} processes, ${before} before`,
  );
});

test('a crowd of handshakes with a server that does not answer meets a bound', async () => {
  const { token, id } = await patient.session();
  const before = patient.upstreams();
  const crowd = counts(84, 400);
  const told: string[] = [];
  const all = Array.from({ length: crowd }, async (_, n) => {
    told.push(outcome(await post(patient.mcp('dead'), token, JSON.stringify(initialize(peculiar(n))))));
  });
  await until(
    () => told.length === crowd - 80,
    patienceMs,
    () => `${told.length} answered`,
  );
  expect(new Set(told)).toEqual(new Set(['!OVERLOADED']));
  expect(patient.upstreams() - before).toBeLessThanOrEqual(80);
  await patient.cli('session', 'end', id);
  await Promise.all(all);
  expect(new Set(told)).toEqual(new Set(['!OVERLOADED', '!SESSION_ENDED']));
  await until(
    () => patient.upstreams() <= before,
    patienceMs,
    () => `${patient.upstreams()} processes, ${before} before`,
  );
});
