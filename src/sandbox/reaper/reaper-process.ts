// The program that outlives Ambit. While its stdin is open, it cleans up after ended processes. When stdin closes,
// Ambit is gone, and it kills everything that Ambit had started.
import { closeSync } from 'node:fs';
import { join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { removeAllContainers, removeContainerOf } from '../container/engine.ts';
import { removeAllCgroups, removeCgroupsOf } from '../limits/cgroup-notes.ts';
import { killUntilGone, type ProcessFamily } from '../processes/process-family.ts';
import { findInheritedDescriptors, type ProcessEntry, readProcess, readStartTime } from '../processes/process-table.ts';
import { formatSwept, isOwnedBy, parseCommand, type TrackedProcess, trackedKey } from './reaper-protocol.ts';

const [root = '', ambitPid = '', ambitStart = '', processTable = ''] = process.argv.slice(2);
const ambit = { pid: Number(ambitPid), start: Number(ambitStart) };
const ambitGroup = readProcess(ambit.pid)?.group;
const canScan = processTable === 'proc';

const sweepEffort = { emptyRounds: 3, pauseMs: 12, limitMs: 2000 };
const closeEffort = { emptyRounds: 3, pauseMs: 12, limitMs: 10_000 };
// A child that Ambit was starting when it died has its TMPDIR only once it executes the new program.
const deathEffort = { emptyRounds: 5, pauseMs: 40, limitMs: 30_000 };

const watched = new Map<string, TrackedProcess>();
const released = new Map<string, TrackedProcess>();
let sweeping: ReadonlyMap<string, TrackedProcess> = new Map();
let sweepTimer: NodeJS.Timeout | undefined;
let sweepAfterMs = 10;
let isOrderly = false;
let isFinishing = false;

function isAmbitOrReaper(entry: ProcessEntry): boolean {
  return (
    entry.pid === process.pid ||
    entry.group === process.pid ||
    entry.pid === ambit.pid ||
    (ambitGroup !== undefined && entry.group === ambitGroup)
  );
}

/** The name of a tracked process by its folder, if the folder is below our root. */
function trackedNameOf(tmpDir: string): string | undefined {
  return tmpDir.startsWith(`${root}/`) ? tmpDir.slice(root.length + 1).split('/', 1)[0] : undefined;
}

function familyOf(processes: readonly TrackedProcess[]): ProcessFamily {
  const names = new Set(processes.map((tracked) => tracked.name));
  const alive = new Map([...watched.values()].map((tracked) => [tracked.pid, tracked.start]));
  return {
    roots: processes,
    isOurs: (tmpDir) => names.has(trackedNameOf(tmpDir) ?? ''),
    since: Math.min(...processes.map((tracked) => tracked.start || ambit.start)),
    isSpared: (entry) => alive.get(entry.pid) === entry.start || isAmbitOrReaper(entry),
  };
}

async function sweepReleased(): Promise<void> {
  sweeping = new Map(released);
  released.clear();
  const processes = [...sweeping.values()];
  if (canScan) {
    const before = process.cpuUsage();
    await killUntilGone(familyOf(processes), { ...sweepEffort, isStopped: () => isFinishing });
    // Limits the share of time that reading a long process table may take.
    const { user, system } = process.cpuUsage(before);
    sweepAfterMs = Math.max(10, (4 * (user + system)) / 1000);
  }
  await Promise.all(processes.map((tracked) => removeContainerOf(root, tracked.name)));
  await Promise.all(processes.map((tracked) => removeCgroupsOf(root, tracked.name)));
  await Promise.all(processes.map((tracked) => removeFolder(join(root, tracked.name))));
  for (const tracked of processes) process.stdout.write(formatSwept(tracked));
  sweeping = new Map();
  sweepTimer = undefined;
  scheduleSweep();
}

function scheduleSweep(): void {
  if (isFinishing || sweepTimer !== undefined || released.size === 0) return;
  sweepTimer = setTimeout(() => void sweepReleased(), sweepAfterMs);
}

function killGroups(processes: readonly TrackedProcess[]): void {
  for (const tracked of processes) {
    if (canScan && readStartTime(tracked.pid) !== tracked.start) continue;
    try {
      process.kill(-tracked.pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
}

async function killEverything(processes: readonly TrackedProcess[]): Promise<void> {
  if (!canScan) {
    killGroups([...watched.values()]);
    return;
  }
  const family: ProcessFamily = {
    roots: processes,
    isOurs: (tmpDir) => trackedNameOf(tmpDir) !== undefined,
    since: ambit.start,
    isSpared: isAmbitOrReaper,
  };
  await killUntilGone(family, isOrderly ? closeEffort : deathEffort);
}

async function endAndExit(): Promise<void> {
  if (isFinishing) return;
  isFinishing = true;
  clearTimeout(sweepTimer);
  const processes = [...watched.values(), ...released.values(), ...sweeping.values()];
  await killEverything(processes);
  await removeAllContainers(root);
  await removeAllCgroups(root);
  await Promise.all(processes.map((tracked) => removeFolder(join(root, tracked.name))));
  if (await isOwnedBy(root, ambit)) await removeFolder(root);
  process.exit(0);
}

function handleCommand(line: string): void {
  const command = parseCommand(line);
  if (command === undefined || isFinishing) return;
  if (command.do === 'close') {
    isOrderly = true;
    return;
  }
  const key = trackedKey(command.tracked);
  if (command.do === 'watch') {
    watched.set(key, command.tracked);
    return;
  }
  watched.delete(key);
  released.set(key, command.tracked);
  scheduleSweep();
}

if (!root.startsWith('/') || !(ambit.pid > 0) || !Number.isSafeInteger(ambit.start)) process.exit(2);
process.title = 'ambit-reaper';
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const) {
  process.on(signal, () => {});
}
process.stdout.on('error', () => {});
process.on('uncaughtException', () => {
  // Nobody can restart it once Ambit is gone, so at least the groups are killed.
  if (!isFinishing) process.exit(1);
  killGroups([...watched.values()]);
  process.exit(1);
});
// Held here, they would outlive Ambit.
if (canScan) for (const descriptor of findInheritedDescriptors()) closeSync(descriptor);

let partial = '';
process.stdin.setEncoding('latin1');
process.stdin.on('data', (text: string) => {
  const lines = (partial + text).split('\n');
  partial = (lines.pop() ?? '').slice(0, 1024);
  for (const line of lines) handleCommand(line);
});
process.stdin.on('end', () => void endAndExit());
process.stdin.on('error', () => void endAndExit());
process.stdin.on('close', () => void endAndExit());
process.stdout.write('ready\n');
