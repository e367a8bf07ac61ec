import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { isAlive, killTagged, until } from '../../runners/tagged-processes.ts';
import { ambitBin } from '../start-ambit.ts';
import { leftoversOf, patienceMs, untilNothingIsLeft, upstreamProgram } from './probed-ambit.ts';
import { type Era, eras, type Whoami } from './visitor.ts';

const clientProgram = join(import.meta.dirname, 'fixtures', 'run-client.js');
const promisedMs = 3000;

interface Wrapped {
  readonly client: number;
  readonly run: number;
  readonly upstream: Whoami;
}

async function startClient(folder: string, era: string, tool: string, flags: readonly string[]): Promise<Wrapped> {
  const places = ['--config', join(folder, 'none.yaml'), '--data-dir', join(folder, 'data')];
  const wrapped = ['--', process.execPath, upstreamProgram, ...flags];
  const client = spawn(process.execPath, [clientProgram, era, tool, ambitBin, ...places, ...wrapped], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const told = once(createInterface({ input: client.stdout }), 'line');
  const left = once(client, 'exit').then(([code]) => Promise.reject(new Error(`the client left with ${code}`)));
  left.catch(() => {});
  const [line] = (await Promise.race([told, left])) as [string];
  return { client: client.pid as number, ...(JSON.parse(line) as Omit<Wrapped, 'client'>) };
}

/** Several at once, as many in each of the eras; they share one data directory, as those of one user do. */
async function withClients(
  chosen: readonly Era[],
  tool: string,
  flags: readonly string[],
  use: (dataDir: string, wrapped: readonly Wrapped[]) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-run-'));
  const each = Array.from({ length: counts(1, 10) }).flatMap(() => chosen);
  try {
    await use(join(folder, 'data'), await Promise.all(each.map((era) => startClient(folder, era, tool, flags))));
  } finally {
    killTagged(folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

describe.skipIf(process.platform !== 'linux').concurrent('ambit run', () => {
  it.each<[string, Era]>([
    ['whoami', 'handshake'],
    ['hang', 'modern'],
  ])(
    'leaves nothing behind when its client is killed after "%s"',
    async (tool, era) => {
      await withClients(proof ? eras : [era], tool, ['--grandchild'], async (dataDir, wrapped) => {
        expect(leftoversOf(dataDir).processes).toHaveLength(wrapped.length * 2);
        for (const { client } of wrapped) process.kill(client, 'SIGKILL');
        await untilNothingIsLeft(dataDir);
        await until(
          () => !wrapped.some(({ run }) => isAlive(run)),
          patienceMs,
          () => '"ambit run" is still there',
        );
      });
    },
    60_000,
  );

  it('takes all it started with it within three seconds when it is killed itself', async () => {
    await withClients(eras, 'hang', ['--stubborn', '--grandchild', '--bare'], async (dataDir, wrapped) => {
      const pids = wrapped.flatMap(({ upstream }) => [upstream.pid, ...upstream.grandchildren]);
      expect(pids.filter(isAlive)).toHaveLength(wrapped.length * 3);
      for (const { run } of wrapped) process.kill(run, 'SIGKILL');
      const left = () => [...leftoversOf(dataDir).tmp, ...pids.filter(isAlive)];
      await until(
        () => left().length === 0,
        promisedMs,
        () => `left ${left()}`,
      );
    });
  }, 60_000);
});
