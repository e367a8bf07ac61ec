import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Bounds } from '../limits/limiter.ts';
import { type StartedChild, spawnWatched } from '../spawn-watched.ts';
import type { Warden } from '../warden.ts';
import type { Device } from './devices.ts';
import { inOrder, type Mounts } from './mounts.ts';
import { group, hosts, passwd, profileArguments } from './profile.ts';
import { cannotStart } from './remedy.ts';

export interface Sandboxed {
  readonly bwrap: string;
  /** With its arguments. */
  readonly program: readonly [string, ...string[]];
  readonly bounds: Bounds;
  readonly lastLook: (() => void) | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly workFolder: string;
  readonly devices: readonly Device[];
  readonly mounts: Mounts;
  readonly seccomp: Buffer;
  /** The most that its own `/tmp` may hold, which lies in memory. */
  readonly tmpBytes: number;
  /** Descriptors that must not come along. */
  readonly inherited: readonly number[];
  readonly tmpDir: string;
}

const numbers = { args: 3, seccomp: 4, passwd: 5, group: 6, hosts: 7 } as const;
const firstHeld = 8;
const lastWordsMs = 500;

/**
 * Starts bwrap with an empty environment and hands it everything over descriptors: its command line can be read inside
 * and by every user of the machine. It gets its arguments only once the warden knows it, and can do nothing before.
 */
export async function spawnSandbox(wanted: Sandboxed, warden: Warden): Promise<StartedChild> {
  const { mounts } = wanted;
  const held = inOrder(mounts).map(({ what }) => what.descriptor);
  const stdio: ('pipe' | 'ignore' | number)[] = [...Array<'pipe'>(firstHeld).fill('pipe'), ...held];
  const nothing = openSync('/dev/null', 'r');
  try {
    for (const number of wanted.inherited) {
      while (stdio.length <= number) stdio.push('ignore');
      if (stdio[number] === 'ignore') stdio[number] = nothing;
    }
    const { bounds, tmpDir } = wanted;
    const started = bounds.outside(wanted.bwrap, [
      ...['--args', String(numbers.args), '--'],
      ...bounds.inside(wanted.program),
    ]);
    const child = await spawnWatched({ ...started, cwd: '/', stdio, tmpDir }, warden);
    await admitted(child, wanted, warden);
    const profile = profileArguments({
      env: wanted.env,
      workFolder: wanted.workFolder,
      devices: wanted.devices,
      tmpBytes: wanted.tmpBytes,
      mounts,
      numberOf: (descriptor) => firstHeld + held.indexOf(descriptor),
      read: numbers,
    });
    handOver(child, numbers.seccomp, wanted.seccomp);
    handOver(child, numbers.passwd, passwd);
    handOver(child, numbers.group, group);
    handOver(child, numbers.hosts, hosts);
    handOver(child, numbers.args, profile.map((argument) => `${argument}\0`).join(''));
    return child;
  } finally {
    closeSync(nothing);
  }
}

/** What cannot be bounded, or may not start after all, is not handed the arguments without which it does nothing. */
async function admitted(child: StartedChild, wanted: Sandboxed, warden: Warden): Promise<void> {
  const left = once(child, 'exit');
  // Of a child that leaves, Node throws away what nobody listens for.
  const listening = () => {};
  child.stderr.on('readable', listening);
  try {
    await wanted.bounds.admit(child.pid);
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('The sandbox was ended as it started.');
    wanted.lastLook?.();
    child.stderr.off('readable', listening);
  } catch (error) {
    child.kill('SIGKILL');
    const [code] = await left;
    await warden.release(child.pid, wanted.tmpDir);
    // Who waits for arguments does not leave without them, unless it cannot do what it is there for.
    throw code === null ? error : cannotStart(await Promise.race([text(child.stderr), delay(lastWordsMs, '')]));
  }
}

function handOver(child: StartedChild, number: number, content: Buffer | string): void {
  const pipe = (child.stdio as readonly unknown[])[number] as Writable;
  // It may have left already; then its exit tells.
  pipe.on('error', () => {});
  pipe.end(content);
}
