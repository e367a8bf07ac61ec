import { execFile } from 'node:child_process';
import { chownSync, closeSync, existsSync, lstatSync, openSync, readlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemFolders } from '../common/visibility-filter.ts';
import { type Mounts, mountsInOrder } from './mounts.ts';

const deviceNumbers = { null: '3', zero: '5', full: '7', random: '8', urandom: '9' } as const;

const nobodyId = 65534;

/** A device file on the machine and its path inside. */
export interface DeviceFile {
  readonly path: string;
  readonly inside: string;
}

export const sandboxUser = { name: 'sandbox', id: '1000', home: '/tmp/home' } as const;
export const tmpFolder = '/tmp';
const maxTmpBytes = 64 << 20;

export const passwdFile = `${sandboxUser.name}:x:${sandboxUser.id}:${sandboxUser.id}::${sandboxUser.home}:/bin/sh\n`;
export const groupFile = `${sandboxUser.name}:x:${sandboxUser.id}:\n`;
export const hostsFile = '127.0.0.1 localhost\n::1 localhost\n';

/** Descriptors that bwrap itself uses before it starts the program. */
interface BwrapDescriptors {
  readonly seccomp: number;
  readonly passwd: number;
  readonly group: number;
  readonly hosts: number;
  /** Bwrap waits on this descriptor once everything is mounted. */
  readonly block: number;
  /** Bwrap writes to this descriptor which process it sets up. */
  readonly info: number;
}

export interface BwrapProfile {
  readonly env: Readonly<Record<string, string>>;
  readonly workFolder: string;
  readonly devices: readonly DeviceFile[];
  /** The size of `/tmp`, if it is less than usual: it lies in memory. */
  readonly tmpBytes: number;
  readonly mounts: Pick<Mounts, 'entries' | 'links' | 'guarded'>;
  /** The number that a pinned descriptor has in bwrap. */
  readonly numberOf: (descriptor: number) => number;
  readonly read: BwrapDescriptors;
}

/** Files in /proc that belong to root. Root may write them even without capabilities, and Ambit may be root. */
const readOnlyInProc = ['sys', 'sysrq-trigger', 'fs', 'acpi', 'scsi', 'mtrr', 'pressure'];
/** Files in /proc that reveal the machine and other users. */
const maskedInProc = [
  'cmdline',
  'kcore',
  'keys',
  'key-users',
  'kmsg',
  'latency_stats',
  'sched_debug',
  'slabinfo',
].concat('timer_list', 'vmallocinfo');
/** Files of /etc that are visible in a sandbox. */
export const etcNames = ['alternatives', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime', 'timezone'];

/** Returns bwrap's arguments. They are cut short if Ambit dies meanwhile, so restrictions come before grants. */
export function bwrapArguments({ env, workFolder, devices, tmpBytes, mounts, numberOf, read }: BwrapProfile): string[] {
  return [
    ...['--block-fd', String(read.block), '--info-fd', String(read.info)],
    ...['--unshare-all', '--unshare-user', '--disable-userns', '--die-with-parent', '--new-session', '--clearenv'],
    ...['--seccomp', String(read.seccomp), '--cap-drop', 'ALL', '--uid', sandboxUser.id, '--gid', sandboxUser.id],
    ...['--hostname', 'sandbox'],
    ...systemFolders.flatMap(systemMount),
    ...etcNames.flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
    ...['--file', String(read.passwd), '/etc/passwd', '--file', String(read.group), '/etc/group'],
    ...['--file', String(read.hosts), '/etc/hosts'],
    ...['--proc', '/proc', ...procMounts(), '--dev', '/dev'],
    ...devices.flatMap(({ path, inside }) => ['--dev-bind', path, inside]),
    // There is no terminal to open in a sandbox.
    ...['--ro-bind', '/dev/null', '/dev/tty', '--remount-ro', '/dev'],
    ...['--perms', '1777', '--size', String(Math.min(tmpBytes, maxTmpBytes)), '--tmpfs', tmpFolder],
    ...['--perms', '0700', '--dir', sandboxUser.home],
    ...mountsInOrder(mounts).flatMap(({ pinned, writable }) => [
      writable ? '--bind-fd' : '--ro-bind-fd',
      String(numberOf(pinned.descriptor)),
      pinned.target,
    ]),
    ...mounts.links.flatMap(({ inside, target }) => ['--symlink', target, inside]),
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', workFolder, '--remount-ro', '/'],
  ];
}

/** Links such as `/bin` into `/usr` stay links inside the sandbox. */
function systemMount(folder: string): string[] {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return [];
  return found.isSymbolicLink() ? ['--symlink', readlinkSync(folder), folder] : ['--ro-bind', folder, folder];
}

function procMounts(): string[] {
  const present = (names: readonly string[]) => names.map((name) => `/proc/${name}`).filter((path) => existsSync(path));
  return [
    ...present(readOnlyInProc).flatMap((path) => ['--ro-bind', path, path]),
    ...present(maskedInProc).flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ];
}

/** The environment of every program in a sandbox, whatever Ambit's own is. Configured variables win. */
export function sandboxEnvironment(
  configured: Readonly<Record<string, string>>,
  searched: readonly string[],
): Record<string, string> {
  return {
    PATH: [...searched, '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
    HOME: sandboxUser.home,
    LANG: 'C.UTF-8',
    ...configured,
    TMPDIR: tmpFolder,
  };
}

/**
 * Makes device files that belong to nobody. The machine's belong to root, and when Ambit is root, so does the user of
 * the sandbox: a chmod could take `/dev/null` from everybody. Empty where they are not needed or cannot be made.
 */
export async function makeDeviceFiles(folder: string): Promise<readonly DeviceFile[]> {
  if (process.getuid?.() !== 0) return [];
  try {
    await mkdir(folder, { mode: 0o700 });
    return await Promise.all(
      Object.entries(deviceNumbers).map(async ([name, minor]) => {
        const path = join(folder, name);
        await promisify(execFile)('mknod', ['-m', '666', path, 'c', '1', minor]);
        chownSync(path, nobodyId, nobodyId);
        // Not every file system lets devices be used.
        closeSync(openSync(path, 'r'));
        return { path, inside: `/dev/${name}` };
      }),
    );
  } catch {
    return [];
  }
}
