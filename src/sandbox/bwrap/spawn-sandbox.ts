import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { bwrapFailed, writersNotPaused } from '../common/sandbox-errors.ts';
import type { Bounds } from '../limits/limiter.ts';
import { NotPausedError, registerWriter, withWritersPaused } from '../processes/pause-writers.ts';
import { type StartedChild, spawnTracked } from '../processes/supervise.ts';
import type { Reaper } from '../reaper/reaper.ts';
import { type BwrapProfile, bwrapArguments, groupFile, hostsFile, passwdFile } from './bwrap-arguments.ts';
import { type Mounts, mountsInOrder } from './mounts.ts';
import { assertMountPointsClear, findMountFolders, parseMountInfo, verifyMounts } from './verify-mounts.ts';

interface SandboxSpawn extends Pick<BwrapProfile, 'env' | 'workFolder' | 'devices' | 'tmpBytes'> {
  readonly bwrap: string;
  /** The program with its arguments. */
  readonly program: readonly [string, ...string[]];
  readonly bounds: Bounds;
  readonly beforeSpawn: (() => void) | undefined;
  readonly mounts: Mounts;
  readonly seccomp: Buffer;
  /** Descriptors that must not be inherited. */
  readonly inherited: readonly number[];
  readonly tmpDir: string;
}

const descriptorNumbers = { args: 3, seccomp: 4, passwd: 5, group: 6, hosts: 7, block: 8, info: 9 } as const;
const firstMountDescriptor = 10;
const stderrWaitMs = 500;
const pollMs = 1;
/** A limit against hanging. */
const setUpLimitMs = 30_000;

/**
 * Starts bwrap with an empty environment and passes everything over descriptors: every user of the machine, and the
 * program inside, can read its command line. Bwrap gets its arguments only once the reaper tracks it, and can do
 * nothing before.
 */
export async function spawnSandbox(wanted: SandboxSpawn, reaper: Reaper): Promise<StartedChild> {
  const { mounts } = wanted;
  const held = mountsInOrder(mounts).map(({ pinned }) => pinned.descriptor);
  const stdio: ('pipe' | 'ignore' | number)[] = [...Array<'pipe'>(firstMountDescriptor).fill('pipe'), ...held];
  const nothing = openSync('/dev/null', 'r');
  try {
    for (const number of wanted.inherited) {
      while (stdio.length <= number) stdio.push('ignore');
      if (stdio[number] === 'ignore') stdio[number] = nothing;
    }
    const { bounds, tmpDir } = wanted;
    const started = bounds.wrapOutside(wanted.bwrap, [
      ...['--args', String(descriptorNumbers.args), '--'],
      ...bounds.wrapInside(wanted.program),
    ]);
    const child = await spawnTracked({ ...started, cwd: '/', stdio, tmpDir }, reaper);
    await killOnFailure(child, wanted, reaper, async () => {
      await bounds.admit(child.pid);
      if (hasExited(child)) throw new Error('The sandbox was ended during its start.');
      wanted.beforeSpawn?.();
      await setUpMounts(child, wanted, (descriptor) => firstMountDescriptor + held.indexOf(descriptor));
      wanted.beforeSpawn?.();
    });
    writeToChild(child, descriptorNumbers.block, 'go');
    return child;
  } finally {
    closeSync(nothing);
  }
}

/**
 * Lets bwrap mount everything, and verifies the mounts. Other servers could move folders meanwhile and so mislead
 * bwrap, so those that may write there are paused. The new program counts as a writer before it runs.
 */
async function setUpMounts(child: StartedChild, wanted: SandboxSpawn, numberOf: (fd: number) => number): Promise<void> {
  const { mounts } = wanted;
  const writable = mounts.entries.flatMap(({ pinned, writable }) => (writable ? [pinned.source] : []));
  await withWritersPaused({ mountFolders: findMountFolders(mounts), writable }, async () => {
    assertMountPointsClear(mounts);
    writeToChild(child, descriptorNumbers.seccomp, wanted.seccomp);
    writeToChild(child, descriptorNumbers.passwd, passwdFile);
    writeToChild(child, descriptorNumbers.group, groupFile);
    writeToChild(child, descriptorNumbers.hosts, hostsFile);
    const profile = bwrapArguments({ ...wanted, numberOf, read: descriptorNumbers });
    writeToChild(child, descriptorNumbers.args, profile.map((argument) => `${argument}\0`).join(''));
    verifyMounts(await waitForSetUp(child), mounts);
    child.once('exit', registerWriter(child.pid, writable));
  }).catch((error) => {
    throw error instanceof NotPausedError ? writersNotPaused(error) : error;
  });
}

/** Waits until bwrap has mounted everything. Returns the process that becomes the server. */
async function waitForSetUp(child: StartedChild): Promise<number> {
  const said = await text((child.stdio as readonly unknown[])[descriptorNumbers.info] as Readable);
  const pid = Number(/"child-pid":\s*(\d+)/.exec(said)?.[1]);
  const deadline = performance.now() + setUpLimitMs;
  while (pid > 1 && !hasExited(child) && performance.now() < deadline) {
    if (await isSetUp(pid)) return pid;
    await delay(pollMs);
  }
  throw bwrapFailed('');
}

/** Whether bwrap has finished: meanwhile it has the sandbox and the machine as two folders of its own root. */
async function isSetUp(pid: number): Promise<boolean> {
  const mounts = parseMountInfo(await readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => ''));
  const root = mounts.find(({ mountPoint }) => mountPoint === '/');
  const atWork = mounts.some(({ mountPoint }) => /^\/(newroot|oldroot)(\/|$)/.test(mountPoint));
  return root !== undefined && root.device !== readOwnRootDevice() && !atWork;
}

const readOwnRootDevice = (): string | undefined =>
  parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8')).find(({ mountPoint }) => mountPoint === '/')?.device;

const hasExited = ({ exitCode, signalCode }: StartedChild): boolean => exitCode !== null || signalCode !== null;

/** Kills a process that cannot be limited, may not start after all, or has wrong mounts, before its program runs. */
async function killOnFailure(
  child: StartedChild,
  { tmpDir }: SandboxSpawn,
  reaper: Reaper,
  start: () => Promise<void>,
): Promise<void> {
  const left = once(child, 'exit');
  // Node discards the output of an ended child that nobody listens for.
  const listening = () => {};
  child.stderr.on('readable', listening);
  try {
    await start();
    child.stderr.off('readable', listening);
  } catch (error) {
    child.kill('SIGKILL');
    const [code] = await left;
    await reaper.release(child.pid, tmpDir);
    // A child that waits for Ambit exits by itself only when it has failed.
    if (code === null) throw error;
    throw bwrapFailed(code === 0 ? '' : await Promise.race([text(child.stderr), delay(stderrWaitMs, '')]));
  }
}

function writeToChild(child: StartedChild, number: number, content: Buffer | string): void {
  const pipe = (child.stdio as readonly unknown[])[number] as Writable;
  // The child may have ended already; then its exit code reports it.
  pipe.on('error', () => {});
  pipe.end(content);
}
