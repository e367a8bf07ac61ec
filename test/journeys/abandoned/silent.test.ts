import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { counts } from '../../proof.ts';
import { type Held, type ProbedAmbit, startProbedAmbit, upstreamProgram } from './probed-ambit.ts';
import { eras } from './visitor.ts';
import { abandonInWaves, expectHeapBack, type Way, warmUp, within } from './waves.ts';

const clientProgram = join(import.meta.dirname, 'fixtures', 'hanging-client.js');
const base = { server: 'plain', ttlSeconds: 1 };

const ways: readonly Way[] = [
  { ...base, name: 'by silence', async abandon() {} },
  {
    ...base,
    name: 'by silence, with a stream open',
    async abandon(guests) {
      const streams = guests.map((guest) => guest.stream());
      await Promise.all(streams.map(({ begun }) => begun));
      await within(Promise.all(streams.map(({ closed }) => closed)), 'the streams of expired sessions are closed');
    },
  },
  {
    ...base,
    name: 'by a cut connection in the middle of a call',
    async abandon(guests) {
      const calls = guests.map((guest) => guest.call('hang'));
      await Promise.all(calls.map(({ begun }) => begun));
      for (const call of calls) call.cut();
    },
  },
  {
    ...base,
    name: 'by SIGKILL of the client in the middle of a call',
    async abandon(guests, ambit) {
      const clients = eras.map((era) => {
        const tokens = guests.filter((guest) => guest.era === era).map(({ token }) => token);
        const stdio = ['ignore', 'pipe', 'inherit'] as const;
        return spawn(process.execPath, [clientProgram, ambit.mcp('plain'), era, ...tokens], { stdio: [...stdio] });
      });
      await Promise.all(clients.map(({ stdout }) => once(stdout!, 'data')));
      for (const client of clients) client.kill('SIGKILL');
    },
  },
];

describe.skipIf(process.platform !== 'linux')('sessions nobody says goodbye to', () => {
  let ambit: ProbedAmbit;
  let before: Held;

  beforeAll(async () => {
    ambit = await startProbedAmbit({
      sessions: { maxPerUser: 100_000, maxSessions: 100_000 },
      // Before 2026 a broken connection is no cancellation: the call counts until its time is up.
      servers: { plain: { command: process.execPath, args: [upstreamProgram], timeoutSeconds: 1 } },
    });
    before = await warmUp(ambit, ways);
  });
  afterAll(() => ambit?.stop());

  it.each(ways)(
    'leave nothing behind $name',
    async (way) => {
      const after = await abandonInWaves(ambit, way, counts(4, 220));
      expectHeapBack(before, after);
    },
    counts(30_000, 600_000),
  );
});
