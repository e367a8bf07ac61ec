import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { isAlive, killTagged, until } from '../../sandbox/tagged-processes.ts';
import { ambitBin, fileFlags } from '../start-ambit.ts';
import {
  findLeftovers,
  maxWaitMs,
  upstreamProgram,
  waitUntilNothingIsLeft,
  waitUntilNothingRuns,
} from '../start-probed-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';
import { type Era, eras, type Whoami } from './raw-client.ts';

const clientProgram = join(import.meta.dirname, 'fixtures', 'run-client.js');
const promisedMs = 3000;
/**
 * Each client is four processes that start: itself, `ambit run`, its reaper and the server. When too many start at the
 * same time, servers do not answer within the time Ambit gives them.
 */
const startedAtOnce = 4;

interface Wrapped {
  readonly client: ChildProcess;
  readonly run: number;
  readonly upstream: Whoami;
}

function spawnClient(folder: string, era: string, tool: string, flags: readonly string[]): ChildProcess {
  const wrapped = ['--', process.execPath, upstreamProgram, ...flags];
  return spawn(process.execPath, [clientProgram, era, tool, ambitBin, ...fileFlags(folder), ...wrapped], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Resolves when the client has made its call and has told what is running. */
async function readReport(client: ChildProcess): Promise<Wrapped> {
  const told = once(createInterface({ input: client.stdout! }), 'line');
  const left = once(client, 'exit').then(([code]) => Promise.reject(new Error(`the client left with ${code}`)));
  left.catch(() => {});
  const [line] = (await Promise.race([told, left])) as [string];
  return { client, ...(JSON.parse(line) as Omit<Wrapped, 'client'>) };
}

/** Several clients, as many in each of the eras; they share one data directory, as those of one user do. */
async function withClients(
  chosen: readonly Era[],
  tool: string,
  flags: readonly string[],
  use: (dataDir: string, wrapped: readonly Wrapped[]) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-run-'));
  const dataDir = join(folder, 'data');
  const each = Array.from({ length: counts(1, 10) }).flatMap(() => chosen);
  const clients: ChildProcess[] = [];
  const wrapped: Wrapped[] = [];
  try {
    while (clients.length < each.length) {
      const some = each
        .slice(clients.length, clients.length + startedAtOnce)
        .map((era) => spawnClient(folder, era, tool, flags));
      clients.push(...some);
      wrapped.push(...(await Promise.all(some.map(readReport))));
    }
    await use(dataDir, wrapped);
  } finally {
    for (const client of clients) client.kill('SIGKILL');
    killTagged(folder);
    // Whoever is still leaving still writes into the folder.
    await until(
      () => !wrapped.some(({ run }) => isAlive(run)),
      maxWaitMs,
      () => '"ambit run" is still there',
    );
    await waitUntilNothingRuns(dataDir);
    rmSync(folder, { recursive: true, force: true });
  }
}

const processesOf = (wrapped: readonly Wrapped[]) =>
  wrapped.flatMap(({ upstream }) => [upstream.pid, ...upstream.grandchildren]);

// The proof measures a promised time, so its tests run one after the other.
describe.skipIf(process.platform !== 'linux')('ambit run', { concurrent: !proof }, () => {
  it.each<[string, readonly Era[]]>(
    proof
      ? [
          ['whoami', eras],
          ['hang', eras],
        ]
      : // In the middle of a call it lingers for ten seconds, which only the proof waits for.
        [['whoami', ['handshake']]],
  )('leaves nothing behind when its client is killed after "%s"', async (tool, chosen) => {
    await withClients(chosen, tool, ['--grandchild'], async (dataDir, wrapped) => {
      const expected = processesOf(wrapped).toSorted();
      expect(expected).toHaveLength(wrapped.length * 2);
      // A process that has just been started shows its environment, and with it its TMPDIR, a moment later.
      await until(
        () => findLeftovers(dataDir).processes.toSorted().join() === expected.join(),
        maxWaitMs,
        () => `${findLeftovers(dataDir).processes} instead of ${expected}`,
      );
      for (const { client } of wrapped) client.kill('SIGKILL');
      await waitUntilNothingIsLeft(dataDir);
      await until(
        () => !wrapped.some(({ run }) => isAlive(run)),
        maxWaitMs,
        () => '"ambit run" is still there',
      );
    });
  });

  it('takes all it started with it when it is killed itself; the proof gives it three seconds', async () => {
    const chosen = proof ? eras : (['modern'] as const);
    await withClients(chosen, 'hang', ['--stubborn', '--grandchild', '--bare'], async (dataDir, wrapped) => {
      const pids = processesOf(wrapped);
      expect(pids.filter(isAlive)).toHaveLength(wrapped.length * 3);
      for (const { run } of wrapped) process.kill(run, 'SIGKILL');
      const left = () => [...findLeftovers(dataDir).tmp, ...pids.filter(isAlive)];
      await waitUntilEmpty(left, proof ? promisedMs : maxWaitMs);
    });
  });
});
