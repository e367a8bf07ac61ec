import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readLines } from '../../../src/protocol/lines/read-lines.ts';
import { counts } from '../../proof.ts';
import { isAlive, killTagged, taggedProcesses, until } from '../tagged-processes.ts';

const driverProgram = fileURLToPath(new URL('../fixtures/starts-every-kind.js', import.meta.url));
const everyKind = [
  'ignores-eof-and-term',
  'leaves-grandchild stay',
  'double-forks',
  'double-forks stay',
  'clears-environment',
  'changes-group',
  'keeps-hopping',
  'floods-stdout',
];
// Who has neither our environment nor our session is found through a living parent only, and a process that is still
// starting may die of its broken pipes before the reaper can look.
const findableAtAnyMoment = everyKind.filter((kind) => kind !== 'clears-environment');
const limitMs = 3000;

interface DriverMessage {
  readonly root?: string;
  readonly reaper?: number;
  readonly pids?: number[];
  readonly ready?: boolean;
  readonly failed?: number;
}

let tmpParent: string;
let driver: ChildProcess | undefined;
let pids: number[] = [];

/** Starts the small Ambit in a group of its own and hands on what it tells. */
function startDriver(kinds: readonly string[], onMessage: (message: DriverMessage) => void): void {
  driver = spawn(process.execPath, [driverProgram, tmpParent, ...kinds], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  });
  driver.once('exit', (code) => code !== null && onMessage({ failed: code }));
  readLines(driver.stdout!, {
    maxBytes: 10_000,
    onLine: (line) => onMessage(JSON.parse(line.toString()) as DriverMessage),
    onTooLong() {},
    onRunaway() {},
  });
}

/** Starts the small Ambit, and waits until enough is known of its processes. */
function startUntil(
  kinds: readonly string[],
  isEnough: (message: DriverMessage) => boolean,
): Promise<{ root: string; reaper: number }> {
  return new Promise((resolve, reject) => {
    let known = { root: '', reaper: 0 };
    startDriver(kinds, (message) => {
      if (message.failed !== undefined) reject(new Error(`the driver left with ${message.failed}`));
      if (message.root !== undefined) known = { root: message.root, reaper: message.reaper ?? 0 };
      if (isEnough(message) && known.root !== '') resolve(known);
    });
  });
}

function kill(whole: 'alone' | 'its group'): void {
  const pid = driver!.pid!;
  process.kill(whole === 'alone' ? pid : -pid, 'SIGKILL');
}

async function expectNothingLeft({ root, reaper }: { root: string; reaper: number }): Promise<void> {
  expect(reaper).toBeGreaterThan(1);
  const left = () => [...taggedProcesses(tmpParent), ...pids.filter(isAlive)];
  await until(
    () => !existsSync(root) && !isAlive(reaper) && left().length === 0,
    limitMs,
    () => `left ${left().join(' ')}, folder ${existsSync(root)}, reaper ${isAlive(reaper)}`,
  );
}

describe.skipIf(process.platform !== 'linux')('when Ambit is killed', () => {
  beforeEach(() => {
    tmpParent = mkdtempSync(join(tmpdir(), 'ambit-killed-'));
  });
  afterEach(() => {
    if (driver?.exitCode === null && driver.signalCode === null) driver.kill('SIGKILL');
    killTagged(tmpParent);
    for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL');
    pids = [];
    rmSync(tmpParent, { recursive: true, force: true });
  });

  it.each(['alone', 'its group'] as const)('%s, everything it had started is gone, time after time', async (whole) => {
    for (let round = 0; round < counts(1, 10); round++) {
      pids = [];
      const ambit = await startUntil(everyKind, (message) => {
        pids.push(...(message.pids ?? []));
        return message.ready === true;
      });
      expect(taggedProcesses(ambit.root).length).toBeGreaterThan(everyKind.length - 2);
      kill(whole);
      await expectNothingLeft(ambit);
    }
  });

  it('at any moment while it is starting processes, nothing is left', async () => {
    const rounds = counts(2, 24);
    for (let round = 0; round < rounds; round++) {
      // All are started at once: it is killed when the first of them are there and the others are not yet.
      let waitsFor = Math.floor((round / rounds) * findableAtAnyMoment.length);
      const ambit = await startUntil(findableAtAnyMoment, (message) => {
        if (message.pids !== undefined) waitsFor--;
        return waitsFor <= 0;
      });
      kill(round % 2 === 0 ? 'alone' : 'its group');
      await expectNothingLeft(ambit);
    }
  });
});
