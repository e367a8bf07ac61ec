import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { type ProbedAmbit, startProbedAmbit, upstreamProgram } from '../start-probed-ambit.ts';
import {
  type AbandonMethod,
  abandonInWaves,
  expectHeap,
  groupMethods,
  type OpenSession,
  warmUp,
  withTimeout,
} from './abandon-in-waves.ts';
import { eras } from './raw-client.ts';

const clientProgram = join(import.meta.dirname, 'fixtures', 'hanging-client.js');
const base = { server: 'plain' };

/** From here on they expire of silence; before, they live long enough for any machine to set them up. */
async function letExpire(guests: readonly OpenSession[], ambit: ProbedAmbit): Promise<void> {
  await Promise.all(guests.map(({ id }) => ambit.shorten(id)));
}

const ways: readonly AbandonMethod[] = [
  { ...base, name: 'by silence', abandon: letExpire },
  {
    ...base,
    name: 'by silence, with a stream open',
    async abandon(guests, ambit) {
      const streams = guests.map((guest) => guest.stream());
      await Promise.all(streams.map(({ begun }) => begun));
      await letExpire(guests, ambit);
      await withTimeout(Promise.all(streams.map(({ closed }) => closed)), 'the streams of expired sessions are closed');
    },
  },
  {
    ...base,
    name: 'by a cut connection in the middle of a call',
    async abandon(guests, ambit) {
      const calls = guests.map((guest) => guest.call('hang'));
      await Promise.all(calls.map(({ begun }) => begun));
      for (const call of calls) call.cut();
      await letExpire(guests, ambit);
    },
  },
  {
    ...base,
    name: 'by a cut connection in the middle of a call that goes on reporting progress',
    async abandon(guests, ambit) {
      const calls = guests.map((guest) => guest.call('wait', { file: join(ambit.folder, 'never') }));
      await Promise.all(calls.map(({ begun }) => begun));
      for (const call of calls) call.cut();
      await letExpire(guests, ambit);
    },
  },
  {
    ...base,
    name: 'by SIGKILL of the client in the middle of a call',
    async abandon(guests, ambit) {
      const clients = eras.map((era) => {
        const tokens = guests.filter((guest) => guest.era === era).map(({ token }) => token);
        const args = [clientProgram, ambit.mcp('plain'), era, ...tokens];
        return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      });
      await Promise.all(clients.map(({ stdout }) => once(stdout, 'data')));
      for (const client of clients) client.kill('SIGKILL');
      await letExpire(guests, ambit);
    },
  },
];

describe.skipIf(process.platform !== 'linux').concurrent('sessions nobody says goodbye to', () => {
  it.each(groupMethods(ways))('leave nothing behind $name', async ({ ways: group }) => {
    const ambit = await startProbedAmbit({
      sessions: { maxPerUser: 100_000, maxSessions: 100_000 },
      // Before 2026 a broken connection is no cancellation: the call counts until its time is up.
      servers: { plain: { command: process.execPath, args: [upstreamProgram], timeoutSeconds: 3 } },
    });
    try {
      const before = proof ? await warmUp(ambit, group) : undefined;
      const after = await abandonInWaves(ambit, group, counts(2, 160));
      if (before !== undefined) expectHeap(before, after);
    } finally {
      await ambit.stop();
    }
  });
});
