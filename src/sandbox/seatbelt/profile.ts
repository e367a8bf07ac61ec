import { protectedNames, protectedPaths, toRegExpSource } from '../../lib/fs/protected-paths.ts';
import type { Guard } from '../common/confinement.ts';
import { listAncestors } from '../common/visibility-filter.ts';

/** The rules of a process. All paths are real paths, since the kernel of macOS compares only these. */
interface SeatbeltRules {
  /** Programs and files of the server, and other readable paths. */
  readonly readable: readonly string[];
  /** The workspace and other writable paths. */
  readonly writable: readonly WritablePath[];
  /** Read-only paths in there, instead of the protected names of a server. */
  readonly frozen?: readonly string[] | undefined;
  /** Files with credentials, which cannot be read: nothing can be mounted over them here. */
  readonly secret?: readonly string[];
  /** Private to the process. */
  readonly tmpDir: string;
}

interface WritablePath {
  readonly path: string;
  readonly guard?: Guard | undefined;
}

/** Folders that every program on macOS needs to start: libraries, the linker's cache, the time zone, devices. */
const systemFolders = [
  '/System/Library',
  '/System/Volumes/Preboot/Cryptexes',
  '/System/Cryptexes',
  '/Library/Apple/System/Library',
  '/usr/lib',
  '/usr/bin',
  '/usr/sbin',
  '/usr/libexec',
  '/usr/share',
  '/bin',
  '/sbin',
  '/private/etc/ssl',
  '/private/var/db/dyld',
  '/private/var/db/timezone',
];
const devices = ['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'];
const sysctls = ['hw.*', 'kern.osrelease', 'kern.ostype', 'kern.osversion', 'kern.osproductversion', 'kern.version']
  .concat('kern.hostname', 'kern.argmax', 'kern.maxfilesperproc', 'kern.secure_kernel', 'kern.usrstack64')
  .concat('machdep.cpu.*', 'security.mac.lockdown_mode_state', 'sysctl.proc_native', 'vm.loadavg');

/**
 * The profile of one process. The last matching rule decides. Everything else is denied, so there is no network, no
 * system service, no starting of other applications, no key chain.
 */
export function seatbeltProfile({ readable, writable, frozen, tmpDir, secret = [] }: SeatbeltRules): string {
  const open = [...writable.map(({ path }) => path), tmpDir];
  const seen = [...systemFolders, ...readable, ...open];
  const above = [...new Set(seen.flatMap((path) => listAncestors(path).slice(1)))];
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-fork)',
    '(allow process-exec*',
    ...[...systemFolders, ...readable, ...open].map(subpath),
    ')',
    '(allow signal (target same-sandbox))',
    '(allow process-info* (target same-sandbox))',
    '(allow sysctl-read',
    ...sysctls.map((name) =>
      name.endsWith('*')
        ? `  (sysctl-name-prefix ${quoteText(name.slice(0, -1))})`
        : `  (sysctl-name ${quoteText(name)})`,
    ),
    ')',
    '(allow file-read*',
    ...seen.map(subpath),
    ...devices.map(literal),
    ')',
    // Names in these folders stay hidden, but the folders themselves do not.
    '(allow file-read-metadata',
    ...above.map(literal),
    ')',
    '(allow file-write*',
    ...open.map(subpath),
    ...devices.slice(0, 2).map(literal),
    ')',
    '(deny file-write-setugid)',
    '(deny file-link)',
    ...(frozen === undefined ? writable.flatMap(writeProtectionRules) : denyWriteRules(frozen)),
    // The private folder is writable, but not the files in it that Ambit shows to the process.
    ...denyWriteRules(readable.filter((path) => path.startsWith(`${tmpDir}/`))),
    ...(secret.length === 0 ? [] : ['(deny file-read-data', ...secret.map(literal), ')']),
    '',
  ].join('\n');
}

/** Entries of a writable repository that git runs or reads as configuration. */
const gitConfigNames = ['config', 'config.worktree', 'commondir', 'hooks', 'info', 'modules', 'worktrees'];

/**
 * Rules that protect files in a writable folder. Unlike a mount, a rule also holds for files that do not exist yet, in
 * any folder, and the protected file cannot be moved away. Plain names are repeated without an expression, which
 * nothing can misread.
 */
function writeProtectionRules({ path, guard }: WritablePath): string[] {
  const mayWrite = guard?.mayWrite ?? (() => false);
  const names = [...protectedNames, ...protectedPaths].filter((name) => !mayWrite(name.split('/')));
  const isOpen = guard?.git === 'write';
  const inTop = isOpen ? gitConfigNames.map((name) => `.git/${name}`) : ['.git'];
  const plain = [...names.filter((name) => !name.includes('*')), ...inTop];
  return [
    '(deny file-write*',
    ...plain.map((name) => subpath(`${path}/${name}`)),
    ...names.map((name) => matchBelow(path, `(.*/)?${toRegExpSource(name)}(/.*)?`)),
    ...inTop.map((name) => matchBelow(path, `${toRegExpSource(name)}(/.*)?`)),
    matchBelow(path, '.+/\\.git(/.*)?'),
    ')',
    '(deny file-write-unlink',
    literal(path),
    literal(`${path}/.git`),
    ')',
  ];
}

/** Without a path the rule would hold for all paths. */
function denyWriteRules(paths: readonly string[]): string[] {
  return paths.length === 0 ? [] : ['(deny file-write*', ...paths.map(subpath), ')'];
}

/** A rule for matching paths below a folder, in any case: file systems of macOS ignore case. */
function matchBelow(folder: string, expression: string): string {
  if (folder.includes('"')) throw new Error('A folder with a quote in its name cannot be protected in a sandbox.');
  const anyCase = expression.replace(/[a-z]/gi, (each) => `[${each.toLowerCase()}${each.toUpperCase()}]`);
  return `  (regex #"^${folder.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}/${anyCase}$")`;
}

const subpath = (path: string): string => `  (subpath ${quoteText(path)})`;
const literal = (path: string): string => `  (literal ${quoteText(path)})`;

/** A path must not end its string and continue as a rule. */
function quoteText(text: string): string {
  if (/[\u0000-\u001f\u007f]/.test(text))
    throw new Error('A path with control characters cannot be used in a sandbox.');
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}
