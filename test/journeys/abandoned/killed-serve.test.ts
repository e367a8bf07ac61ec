import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { isAlive, killTagged, until } from '../../sandbox/tagged-processes.ts';
import { requestControl } from '../request-control.ts';
import { spawnAmbit, startServe } from '../start-ambit.ts';
import {
  findLeftovers,
  maxWaitMs,
  type ProbedAmbit,
  startProbedAmbit,
  upstreamProgram,
  waitUntilNothingIsLeft,
  waitUntilNothingRuns,
} from '../start-probed-ambit.ts';
import { connectRawClient, type Endpoint, type Era, eras, readWhoami } from './raw-client.ts';

const server = (...flags: string[]) => ({ command: process.execPath, args: [upstreamProgram, ...flags] });
const servers = {
  plain: server(),
  stubborn: server('--stubborn'),
  family: server('--grandchild'),
  worst: server('--stubborn', '--grandchild'),
};
const names = Object.keys(servers);
const killedMs = 3000;
const termMs = 5000;

async function start(): Promise<ProbedAmbit> {
  const ambit = await startProbedAmbit({ servers, sessions: { maxPerUser: 100_000, maxSessions: 100_000 } });
  onTestFinished(async () => {
    killTagged(ambit.dataDir);
    await ambit.stop('SIGKILL');
  });
  return ambit;
}

const placesOf = ({ folder, dataDir }: ProbedAmbit) => [
  '--config',
  join(folder, 'etc', 'ambit.yaml'),
  '--data-dir',
  dataDir,
];

async function doorOf(ambit: ProbedAmbit, name: string): Promise<Endpoint> {
  return { token: (await ambit.open()).token, url: ambit.mcp(name) };
}

/** A session with a call under way and a stream open; all its processes. */
async function occupy(ambit: ProbedAmbit, index: number): Promise<number[]> {
  // Four of them are one of each server; the next four meet the other era.
  const era = eras[(index + (index >> 2)) % 2] as Era;
  const visitor = await connectRawClient(era, await doorOf(ambit, names[index % names.length] as string));
  const { pid, grandchildren } = await visitor.whoami();
  const exchanges = [visitor.call('hang'), visitor.stream()];
  await Promise.all(exchanges.map(({ begun }) => begun));
  return [pid, ...grandchildren];
}

async function occupyAll(ambit: ProbedAmbit, sessions: number): Promise<number[]> {
  return (await Promise.all(Array.from({ length: sessions }, (_, index) => occupy(ambit, index)))).flat();
}

function reaperOf(ambit: ProbedAmbit): number {
  const children = readFileSync(`/proc/${ambit.pid}/task/${ambit.pid}/children`, 'utf8').trim().split(' ').map(Number);
  const found = children.filter((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('ambit-reaper'));
  expect(found).toHaveLength(1);
  return found[0] as number;
}

describe.skipIf(process.platform !== 'linux')('when ambit serve is killed', () => {
  it('everything it started is gone, in the proof within three seconds, and the next start clears what belongs to no session', async () => {
    for (let round = 0; round < counts(1, 20); round++) {
      const ambit = await start();
      const pids = await occupyAll(ambit, counts(4, 24));
      const reaper = reaperOf(ambit);
      expect(pids.filter(isAlive)).toHaveLength(pids.length);
      const exited = once(ambit.process, 'exit');
      ambit.process.kill('SIGKILL');
      await exited;
      const left = () => [...findLeftovers(ambit.dataDir).processes, ...[...pids, reaper].filter(isAlive)];
      await until(
        () => left().length === 0 && readdirSync(join(ambit.dataDir, 'tmp')).length === 0,
        proof ? killedMs : maxWaitMs,
        () => `left ${left()}`,
      );
      // Its sessions live on, and with them what they wrote; what belongs to none is cleared.
      mkdirSync(join(ambit.dataDir, 'run', 'ended-long-ago'), { recursive: true });
      const next = await startServe(placesOf(ambit));
      onTestFinished(async () => void (await next.stop('SIGKILL')));
      const control = join(ambit.dataDir, 'control.sock');
      const { sessions } = await requestControl<{ sessions: { id: string }[] }>(control, 'GET', '/api/v1/sessions');
      const ids = sessions.map(({ id }) => id);
      expect(findLeftovers(ambit.dataDir).run.filter((name) => !ids.includes(name))).toEqual([]);
      for (const id of ids) await requestControl(control, 'DELETE', `/api/v1/sessions/${id}`);
      await waitUntilNothingIsLeft(ambit.dataDir);
      expect(await next.stop('SIGTERM')).toBe(0);
    }
  });
});

describe.skipIf(process.platform !== 'linux')('when ambit serve is told to end', () => {
  it('it lets calls finish, takes no new ones and is gone with 0, in the proof within five seconds, whatever is under way', async () => {
    const ambit = await start();
    const pids = await occupyAll(ambit, counts(2, 24));
    const file = join(ambit.folder, 'release');
    const calls = await Promise.all(
      eras.map(async (era) => {
        const visitor = await connectRawClient(era, await doorOf(ambit, 'plain'));
        const { pid } = await visitor.whoami();
        const call = visitor.call('wait', { file });
        await call.begun;
        return { pid, call };
      }),
    );
    const exited = once(ambit.process, 'exit');
    const began = performance.now();
    ambit.process.kill('SIGTERM');
    // At once, since calls that are under way have no more than a moment from here on.
    writeFileSync(file, '');
    await untilRefused(new URL(ambit.url));
    for (const { pid, call } of calls) expect(readWhoami(await call.answered).pid).toBe(pid);
    expect(await exited).toEqual([0, null]);
    if (proof) expect(performance.now() - began).toBeLessThan(termMs);
    // On a busy machine it does not wait for the reaper to the end.
    await waitUntilNothingRuns(ambit.dataDir);
    expect([...pids, ...calls.map(({ pid }) => pid)].filter(isAlive)).toEqual([]);
  });

  it.each(proof ? ['tmp', 'journal', 'control.sock', 'ready'] : ['tmp'])(
    'it leaves with 0 even before it has begun, as soon as there is its "%s"',
    async (sign) => {
      const folder = mkdtempSync(join(tmpdir(), 'ambit-term-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const config = join(folder, 'etc', 'ambit.yaml');
      const dataDir = join(folder, 'data');
      mkdirSync(join(folder, 'etc'));
      writeFileSync(config, JSON.stringify({ version: 1, servers }));
      const child = spawnAmbit(['serve', '--port', '0', '--json', '--config', config, '--data-dir', dataDir]);
      const exited = once(child, 'exit');
      let ready = false;
      child.stdout?.once('data', () => {
        ready = true;
      });
      await until(
        () => (sign === 'ready' ? ready : existsSync(join(dataDir, sign))),
        maxWaitMs,
        () => `there is its ${sign}`,
      );
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
      expect(existsSync(join(dataDir, 'control.sock'))).toBe(false);
      expect(readdirSync(join(dataDir, 'tmp'))).toEqual([]);
    },
  );
});

async function untilRefused({ hostname, port }: URL): Promise<void> {
  for (;;) {
    const refused = await new Promise<boolean>((resolve) => {
      const probe = connect(Number(port), hostname, () => {
        probe.destroy();
        resolve(false);
      });
      probe.on('error', () => resolve(true));
    });
    if (refused) return;
    await delay(10);
  }
}
