import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { counts } from '../../proof.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import {
  type JournalLine,
  maxWaitMs,
  type ProbedAmbit,
  startProbedAmbit,
  upstreamProgram,
} from '../start-probed-ambit.ts';
import {
  connectRawClient,
  type Endpoint,
  type Era,
  eras,
  type RawClient,
  readRefusalCode,
  readWhoami,
} from './raw-client.ts';

const upstream = { command: process.execPath, args: [upstreamProgram] };
const crowd = counts(10, 50);

let ambit: ProbedAmbit;

async function newDoor(): Promise<Endpoint & { readonly id: string }> {
  const { id, token } = await ambit.open();
  return { id, token, url: ambit.mcp('plain') };
}

const eventsOf = (session: string, event: string): JournalLine[] =>
  ambit.journal().filter((line) => line.kind === 'process' && line.event === event && line.sessionId === session);

async function untilEvent(session: string, event: string, pid: number): Promise<void> {
  const seen = () => eventsOf(session, event).some((line) => line.pid === pid);
  await until(seen, maxWaitMs, () => `the journal tells that process ${pid} has ${event}`);
}

/** A new process that was told what the client had told the first one. */
async function expectBack(visitor: RawClient, pid: number): Promise<number> {
  const back = await visitor.whoami();
  expect(back.pid).not.toBe(pid);
  const shaken = visitor.era === 'handshake';
  expect([back.handshakes, back.initialized]).toEqual([shaken ? 1 : 0, shaken]);
  return back.pid;
}

describe.skipIf(process.platform !== 'linux')('the process of a session', () => {
  beforeAll(async () => {
    ambit = await startProbedAmbit({ servers: { plain: upstream } });
  });
  afterAll(() => ambit?.stop());

  it('is started once, however many calls of the modern era come first', async () => {
    const door = await newDoor();
    const visitor = await connectRawClient('modern', door);
    const answers = await Promise.all(Array.from({ length: crowd }, () => visitor.whoami()));
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(1);
    await untilEvent(door.id, 'started', answers[0]?.pid ?? 0);
    expect(eventsOf(door.id, 'started')).toHaveLength(1);
  });

  it('is started once and shaken hands with once, however many clients come with equal capabilities', async () => {
    const door = await newDoor();
    const visitors = await Promise.all(Array.from({ length: crowd }, () => connectRawClient('handshake', door)));
    expect(new Set(visitors.map(({ transportId }) => transportId)).size).toBe(crowd);
    const answers = await Promise.all(visitors.map((visitor) => visitor.whoami()));
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(1);
    expect(new Set(answers.map(({ handshakes }) => handshakes))).toEqual(new Set([1]));
    await untilEvent(door.id, 'started', answers[0]?.pid ?? 0);
    expect(eventsOf(door.id, 'started')).toHaveLength(1);
  });

  it('is another one for other capabilities, another era, another session', async () => {
    const door = await newDoor();
    const visitors = [
      await connectRawClient('handshake', door),
      await connectRawClient('handshake', door, { roots: {} }),
      await connectRawClient('modern', door),
      await connectRawClient('modern', await newDoor()),
    ];
    const answers = await Promise.all(visitors.map((visitor) => visitor.whoami()));
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(visitors.length);
  });

  it.each(eras)('is started once more after a crash that many %s calls waited for', async (era) => {
    const door = await newDoor();
    const visitor = await connectRawClient(era, door);
    const { pid } = await visitor.whoami();
    const waiting = Array.from({ length: crowd }, () => visitor.call('hang'));
    await Promise.all(waiting.map(({ begun }) => begun));
    const answers = await Promise.all([...waiting, visitor.call('crash')].map(({ answered }) => answered));
    expect(answers.map(readRefusalCode)).toEqual(answers.map(() => 'UPSTREAM_FAILED'));
    const back = await Promise.all(Array.from({ length: crowd }, () => expectBack(visitor, pid)));
    await untilEvent(door.id, 'started', back[0] ?? 0);
    expect(eventsOf(door.id, 'started')).toHaveLength(2);
  });
});

describe.skipIf(process.platform !== 'linux')('a process without calls', () => {
  beforeAll(async () => {
    ambit = await startProbedAmbit({ processes: { idleSeconds: 0.5 }, servers: { plain: upstream } });
  });
  afterAll(() => ambit?.stop());

  it('is ended, an open GET stream or not, and comes back with the next call', async () => {
    const visitors = await Promise.all(Array.from({ length: counts(3, 40) }, (_, index) => visit(index)));
    await Promise.all(visitors.map(({ id, pid }) => untilEvent(id, 'ended', pid)));
    let left = ambit.leftovers();
    await until(
      () => {
        left = ambit.leftovers();
        return left.processes.length + left.tmp.length === 0;
      },
      maxWaitMs,
      () => `left ${JSON.stringify(left)}`,
    );
    // The sessions live on, and what their processes wrote into their working directories with them.
    expect(left.run.toSorted()).toEqual(visitors.map(({ id }) => id).toSorted());
    await Promise.all(visitors.map((visitor) => expectBack(visitor, visitor.pid)));
    for (const { opened } of visitors) opened?.cut();
  });

  async function visit(index: number) {
    const door = await newDoor();
    const visitor = await connectRawClient(eras[index % 2] as Era, door);
    const opened = index % 4 === 0 ? visitor.stream() : undefined;
    await opened?.begun;
    const { pid } = await visitor.whoami();
    return { ...visitor, id: door.id, opened, pid };
  }
});

describe.skipIf(process.platform !== 'linux')('a process that reaches its greatest age', () => {
  beforeAll(async () => {
    ambit = await startProbedAmbit({ processes: { maxSeconds: 1 }, servers: { plain: upstream } });
  });
  afterAll(() => ambit?.stop());

  it('is replaced when no call is under way, and not before', async () => {
    const file = join(ambit.folder, 'release');
    const busy = await Promise.all(
      eras.map(async (era) => {
        const door = await newDoor();
        const visitor = await connectRawClient(era, door);
        const call = visitor.call('wait', { file });
        await call.begun;
        return { visitor, call, id: door.id };
      }),
    );
    // A younger process with nothing to do tells when the older ones have been too old for a while.
    const door = await newDoor();
    const calm = await connectRawClient('modern', door);
    const younger = await calm.whoami();
    await untilEvent(door.id, 'ended', younger.pid);
    // On a slow machine a first process may have become too old before its call came; the one with the call must live.
    const endedSoFar = busy.flatMap(({ id }) => eventsOf(id, 'ended')).map((line) => line.pid);
    writeFileSync(file, '');
    await Promise.all([
      expectBack(calm, younger.pid),
      ...busy.map(async ({ visitor, call, id }) => {
        const { pid } = readWhoami(await call.answered);
        expect(endedSoFar).not.toContain(pid);
        await untilEvent(id, 'ended', pid);
        // Nor was another one started in its place before it had ended.
        expect(eventsOf(id, 'started').at(-1)?.pid).toBe(pid);
        await expectBack(visitor, pid);
      }),
    ]);
  });
});
