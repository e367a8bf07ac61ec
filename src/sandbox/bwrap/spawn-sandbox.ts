import { once } from 'node:events';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { cannotStart, neighboursRun } from '../common/sandbox-errors.ts';
import type { Bounds } from '../limits/limiter.ts';
import { NotPaused, noteWriter, withWritersPaused } from '../processes/pause-writers.ts';
import { type StartedChild, spawnWatched } from '../processes/supervise.ts';
import type { Warden } from '../reaper/reaper.ts';
import { type Device, group, hosts, passwd, profileArguments } from './bwrap-arguments.ts';
import { inOrder, type Mounts } from './mounts.ts';
import { assertShownTruly, assertWaysClear, foldersMountedUpon, parseMounts } from './verify-mounts.ts';

const closeOnExec = 0o2000000;

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

const numbers = { args: 3, seccomp: 4, passwd: 5, group: 6, hosts: 7, block: 8, info: 9 } as const;
const firstHeld = 10;
const lastWordsMs = 500;
const lookAgainMs = 1;
/** Against hanging. */
const setUpLimitMs = 30_000;

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
    await orEnd(child, wanted, warden, async () => {
      await admit(child, wanted);
      await setUp(child, wanted, (descriptor) => firstHeld + held.indexOf(descriptor));
      wanted.lastLook?.();
    });
    handOver(child, numbers.block, 'go');
    return child;
  } finally {
    closeSync(nothing);
  }
}

async function admit(child: StartedChild, wanted: Sandboxed): Promise<void> {
  await wanted.bounds.admit(child.pid);
  if (hasLeft(child)) throw new Error('The sandbox was ended as it started.');
  wanted.lastLook?.();
}

/**
 * Lets bwrap mount everything, and looks at what came of it. Other servers could move folders meanwhile, and so lead bwrap
 * elsewhere: those that may write there stand still. Its own program counts as one of them before it runs.
 */
async function setUp(child: StartedChild, wanted: Sandboxed, numberOf: (held: number) => number): Promise<void> {
  const { mounts } = wanted;
  const writable = mounts.places.flatMap(({ what, writable }) => (writable ? [what.real] : []));
  await withWritersPaused({ mountedUpon: foldersMountedUpon(mounts), writable }, async () => {
    assertWaysClear(mounts);
    handOver(child, numbers.seccomp, wanted.seccomp);
    handOver(child, numbers.passwd, passwd);
    handOver(child, numbers.group, group);
    handOver(child, numbers.hosts, hosts);
    const profile = profileArguments({ ...wanted, numberOf, read: numbers });
    handOver(child, numbers.args, profile.map((argument) => `${argument}\0`).join(''));
    assertShownTruly(await setUpProcess(child), mounts);
    child.once('exit', noteWriter(child.pid, writable));
  }).catch((error) => {
    throw error instanceof NotPaused ? neighboursRun(error) : error;
  });
}

/** The process that becomes the server, once bwrap has mounted everything for it. */
async function setUpProcess(child: StartedChild): Promise<number> {
  const said = await text((child.stdio as readonly unknown[])[numbers.info] as Readable);
  const pid = Number(/"child-pid":\s*(\d+)/.exec(said)?.[1]);
  const deadline = performance.now() + setUpLimitMs;
  while (pid > 1 && !hasLeft(child) && performance.now() < deadline) {
    if (await isSetUp(pid)) return pid;
    await delay(lookAgainMs);
  }
  throw cannotStart('');
}

/** While bwrap is at work, it has the sandbox and the machine side by side, as folders of a root of its own. */
async function isSetUp(pid: number): Promise<boolean> {
  const mounts = parseMounts(await readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => ''));
  const root = mounts.find(({ place }) => place === '/');
  const atWork = mounts.some(({ place }) => /^\/(newroot|oldroot)(\/|$)/.test(place));
  return root !== undefined && root.device !== ownRoot() && !atWork;
}

const ownRoot = (): string | undefined =>
  parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).find(({ place }) => place === '/')?.device;

const hasLeft = ({ exitCode, signalCode }: StartedChild): boolean => exitCode !== null || signalCode !== null;

/** What cannot be bounded, may not start after all, or is not what it should be, does not get to its program. */
async function orEnd(
  child: StartedChild,
  { tmpDir }: Sandboxed,
  warden: Warden,
  start: () => Promise<void>,
): Promise<void> {
  const left = once(child, 'exit');
  // Of a child that leaves, Node throws away what nobody listens for.
  const listening = () => {};
  child.stderr.on('readable', listening);
  try {
    await start();
    child.stderr.off('readable', listening);
  } catch (error) {
    child.kill('SIGKILL');
    const [code] = await left;
    await warden.release(child.pid, tmpDir);
    // Who waits for us does not leave by itself, unless it cannot do what it is there for.
    if (code === null) throw error;
    throw cannotStart(code === 0 ? '' : await Promise.race([text(child.stderr), delay(lastWordsMs, '')]));
  }
}

function handOver(child: StartedChild, number: number, content: Buffer | string): void {
  const pipe = (child.stdio as readonly unknown[])[number] as Writable;
  // It may have left already; then its exit tells.
  pipe.on('error', () => {});
  pipe.end(content);
}

/**
 * Descriptors Ambit was itself started with, which every program it starts would inherit: whatever Node opens closes by
 * itself, these do not, and bwrap would pass them on into the sandbox.
 */
export function inheritedDescriptors(): number[] {
  const found: number[] = [];
  for (const name of readdirSync('/proc/self/fd')) {
    const descriptor = Number(name);
    if (descriptor <= 2) continue;
    try {
      const flags = /flags:\s*([0-7]+)/.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'latin1'))?.[1] ?? '';
      if ((Number.parseInt(flags, 8) & closeOnExec) === 0) found.push(descriptor);
    } catch {
      // The descriptor of the listing itself.
    }
  }
  return found;
}
