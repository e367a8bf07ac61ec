import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { type ProbedAmbit, type ProcessState, startProbedAmbit, upstreamProgram } from '../start-probed-ambit.ts';
import {
  type AbandonMethod,
  abandonInWaves,
  expectHeap,
  groupMethods,
  type OpenSession,
  warmUp,
  withTimeout,
} from './abandon-in-waves.ts';
import { readRefusalCode } from './raw-client.ts';

async function endAll(guests: readonly OpenSession[], ambit: ProbedAmbit): Promise<void> {
  await Promise.all(guests.map(({ id }) => ambit.end(id)));
}

const ways: readonly AbandonMethod[] = [
  {
    name: 'by DELETE and the end of the session',
    server: 'plain',
    async abandon(guests, ambit) {
      for (const guest of guests) {
        expect(await guest.leave()).toBe(200);
        // The session is still there; its transport session is not.
        if (guest.era === 'handshake') expect((await guest.call('whoami').answered).status).toBe(404);
      }
      await endAll(guests, ambit);
    },
  },
  {
    name: 'by the end of the session, with a stream open',
    server: 'plain',
    async abandon(guests, ambit) {
      const streams = guests.map((guest) => guest.stream());
      await Promise.all(streams.map(({ begun }) => begun));
      await endAll(guests, ambit);
      await withTimeout(Promise.all(streams.map(({ closed }) => closed)), 'the streams of ended sessions are closed');
    },
  },
  {
    name: 'by the end of the session in the middle of a call',
    server: 'plain',
    async abandon(guests, ambit) {
      const calls = guests.map((guest) => guest.call('hang'));
      await Promise.all(calls.map(({ begun }) => begun));
      await endAll(guests, ambit);
      const answers = await Promise.all(calls.map(({ answered }) => answered));
      expect(answers.map(readRefusalCode)).toEqual(guests.map(() => 'SESSION_ENDED'));
    },
  },
  {
    name: 'after their server crashed in the middle of a call',
    server: 'plain',
    async abandon(guests, ambit) {
      const answers = await Promise.all(guests.map((guest) => guest.call('crash').answered));
      expect(answers.map(readRefusalCode)).toEqual(guests.map(() => 'UPSTREAM_FAILED'));
      await endAll(guests, ambit);
    },
  },
  { name: 'with a server that ignores the end of its stdin and TERM', server: 'stubborn', abandon: endAll },
  { name: 'with grandchildren in sessions of their own', server: 'family', abandon: endAll },
  {
    name: 'with somebody who goes on writing into the working directory',
    server: 'plain',
    async abandon(guests, ambit) {
      await Promise.all(guests.map((guest) => guest.call('scatter').answered));
      await endAll(guests, ambit);
    },
  },
  {
    name: 'with files lying about, some of them write-protected',
    server: 'plain',
    async abandon(guests, ambit) {
      await Promise.all(guests.map((guest) => guest.call('litter').answered));
      await endAll(guests, ambit);
    },
  },
];

describe.skipIf(process.platform !== 'linux')('sessions that are ended', () => {
  let ambit: ProbedAmbit;
  let before: ProcessState | undefined;

  beforeAll(async () => {
    const server = (...flags: string[]) => ({ command: process.execPath, args: [upstreamProgram, ...flags] });
    ambit = await startProbedAmbit({
      sessions: { maxPerUser: 100_000, maxSessions: 100_000 },
      servers: { plain: server(), stubborn: server('--stubborn'), family: server('--grandchild') },
    });
    before = proof ? await warmUp(ambit, ways) : undefined;
  });
  afterAll(() => ambit?.stop());

  it.each(groupMethods(ways))('leave nothing behind $name', async ({ ways: group }) => {
    const after = await abandonInWaves(ambit, group, counts(1, 160));
    if (before !== undefined) expectHeap(before, after);
  });
});
