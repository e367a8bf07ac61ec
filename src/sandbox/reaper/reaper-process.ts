// The program that outlives Ambit: while its stdin is open it sweeps up after processes that have ended; when stdin
// closes, Ambit is gone, and it kills everything Ambit had started.
import { closeSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { isOwnedBy } from '../common/instance-owner.ts';
import { removeAllContainers, removeContainerOf } from '../container/container-notes.ts';
import { removeAllGroups, removeGroupsOf } from '../limits/cgroup-notes.ts';
import { type Family, killUntilGone } from '../processes/process-family.ts';
import { type ProcessEntry, readProcess, startTimeOf } from '../processes/process-table.ts';
import { formatSwept, parseCommand, type Ward, wardKey } from './reaper-protocol.ts';

const [root = '', ambitPid = '', ambitStart = '', processTable = ''] = process.argv.slice(2);
const ambit = { pid: Number(ambitPid), start: Number(ambitStart) };
const ambitGroup = readProcess(ambit.pid)?.group;
const canScan = processTable === 'proc';

const afterRelease = { emptyRounds: 3, pauseMs: 12, limitMs: 2000 };
const afterClose = { emptyRounds: 3, pauseMs: 12, limitMs: 10_000 };
// A child Ambit was starting when it died carries its TMPDIR only once it has become the new program.
const afterDeath = { emptyRounds: 5, pauseMs: 40, limitMs: 30_000 };

const watched = new Map<string, Ward>();
const released = new Map<string, Ward>();
let sweeping: ReadonlyMap<string, Ward> = new Map();
let sweepTimer: NodeJS.Timeout | undefined;
let sweepAfterMs = 10;
let orderly = false;
let finishing = false;

function isAmbitOrWarden(entry: ProcessEntry): boolean {
  return (
    entry.pid === process.pid ||
    entry.group === process.pid ||
    entry.pid === ambit.pid ||
    (ambitGroup !== undefined && entry.group === ambitGroup)
  );
}

/** The ward's name when the folder is one below our root. */
function wardNameOf(tmpDir: string): string | undefined {
  return tmpDir.startsWith(`${root}/`) ? tmpDir.slice(root.length + 1).split('/', 1)[0] : undefined;
}

function familyOf(wards: readonly Ward[]): Family {
  const names = new Set(wards.map((ward) => ward.name));
  const alive = new Map([...watched.values()].map((ward) => [ward.pid, ward.start]));
  return {
    roots: wards,
    isOurs: (tmpDir) => names.has(wardNameOf(tmpDir) ?? ''),
    since: Math.min(...wards.map((ward) => ward.start || ambit.start)),
    isSpared: (entry) => alive.get(entry.pid) === entry.start || isAmbitOrWarden(entry),
  };
}

async function sweep(): Promise<void> {
  sweeping = new Map(released);
  released.clear();
  const wards = [...sweeping.values()];
  if (canScan) {
    const before = process.cpuUsage();
    await killUntilGone(familyOf(wards), { ...afterRelease, isStopped: () => finishing });
    // Looking through a long process table must not become all this process does.
    const { user, system } = process.cpuUsage(before);
    sweepAfterMs = Math.max(10, (4 * (user + system)) / 1000);
  }
  await Promise.all(wards.map((ward) => removeContainerOf(root, ward.name)));
  await Promise.all(wards.map((ward) => removeGroupsOf(root, ward.name)));
  await Promise.all(wards.map((ward) => removeFolder(join(root, ward.name))));
  for (const ward of wards) process.stdout.write(formatSwept(ward));
  sweeping = new Map();
  sweepTimer = undefined;
  scheduleSweep();
}

function scheduleSweep(): void {
  if (finishing || sweepTimer !== undefined || released.size === 0) return;
  sweepTimer = setTimeout(() => void sweep(), sweepAfterMs);
}

function killGroups(wards: readonly Ward[]): void {
  for (const ward of wards) {
    if (canScan && startTimeOf(ward.pid) !== ward.start) continue;
    try {
      process.kill(-ward.pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
}

async function killEverything(wards: readonly Ward[]): Promise<void> {
  if (!canScan) {
    killGroups([...watched.values()]);
    return;
  }
  const family: Family = {
    roots: wards,
    isOurs: (tmpDir) => wardNameOf(tmpDir) !== undefined,
    since: ambit.start,
    isSpared: isAmbitOrWarden,
  };
  await killUntilGone(family, orderly ? afterClose : afterDeath);
}

async function finish(): Promise<void> {
  if (finishing) return;
  finishing = true;
  clearTimeout(sweepTimer);
  const wards = [...watched.values(), ...released.values(), ...sweeping.values()];
  await killEverything(wards);
  await removeAllContainers(root);
  await removeAllGroups(root);
  await Promise.all(wards.map((ward) => removeFolder(join(root, ward.name))));
  if (await isOwnedBy(root, ambit)) await removeFolder(root);
  process.exit(0);
}

function obey(line: string): void {
  const command = parseCommand(line);
  if (command === undefined || finishing) return;
  if (command.do === 'close') {
    orderly = true;
    return;
  }
  const key = wardKey(command.ward);
  if (command.do === 'watch') {
    watched.set(key, command.ward);
    return;
  }
  watched.delete(key);
  released.set(key, command.ward);
  scheduleSweep();
}

/** What Ambit itself inherited without close-on-exec came along; held here, it would outlive Ambit. */
function closeInherited(): void {
  if (!canScan) return;
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      const flags = /flags:\s*([0-7]+)/.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'utf8'))?.[1] ?? '';
      if (Number(name) > 2 && (Number.parseInt(flags, 8) & 0o2000000) === 0) closeSync(Number(name));
    } catch {
      // The descriptor of the listing itself.
    }
  }
}

if (!root.startsWith('/') || !(ambit.pid > 0) || !Number.isSafeInteger(ambit.start)) process.exit(2);
process.title = 'ambit-warden';
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const) {
  process.on(signal, () => {});
}
process.stdout.on('error', () => {});
process.on('uncaughtException', () => {
  // Nobody is left to restart it once Ambit is gone; then at least the groups are killed.
  if (!finishing) process.exit(1);
  killGroups([...watched.values()]);
  process.exit(1);
});
closeInherited();

let partial = '';
process.stdin.setEncoding('latin1');
process.stdin.on('data', (text: string) => {
  const lines = (partial + text).split('\n');
  partial = (lines.pop() ?? '').slice(0, 1024);
  for (const line of lines) obey(line);
});
process.stdin.on('end', () => void finish());
process.stdin.on('error', () => void finish());
process.stdin.on('close', () => void finish());
process.stdout.write('ready\n');
