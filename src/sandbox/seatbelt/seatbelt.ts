import { once } from 'node:events';
import { lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { protectedNames, protectedPaths, toRegExpSource } from '../../lib/fs/protected-paths.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { findRedaction, redactBytes } from '../../lib/redact/redact-settings.ts';
import type { Confinement, Guard, Mount } from '../common/confinement.ts';
import { isProgram } from '../common/find-program.ts';
import { createProbe, listMissingProtections, readProbeOutput } from '../common/probe.ts';
import { refuseHosts, refuseVolume, sandboxUnavailable } from '../common/sandbox-errors.ts';
import { type ServerFiles, serverFiles } from '../common/server-files.ts';
import { findMachineCredentials, listAncestors, visibilityRulesOf } from '../common/visibility-filter.ts';
import type { EnforcedLimits } from '../limits/limits.ts';
import {
  createWatchdog,
  ensurePrivateFolder,
  noBounds,
  type StartedChild,
  spawnTracked,
  superviseBounded,
  superviseChild,
} from '../processes/supervise.ts';
import type { ProbeResult, ProcessLaunch, RunnerOptions, SandboxRunner } from '../runner.ts';

const sandboxExec = '/usr/bin/sandbox-exec';
const probeLimitMs = 10_000;
const enforcedLimits: EnforcedLimits = {
  memoryMb: 'none',
  pids: 'none',
  cpus: 'none',
  fileMb: 'none',
  openFiles: 'none',
  wallSeconds: 'timer',
};

/** Starts processes under the sandbox of macOS, or not at all. */
export function createSeatbeltRunner(options: RunnerOptions): SandboxRunner {
  const { reaper, tmpRoot, timing = { closeMs: 1000, termMs: 1000 } } = options;
  const watchdog = createWatchdog();
  let probed: Promise<ProbeResult> | undefined;
  let probes = 0;

  async function spawnServer(
    launch: ProcessLaunch,
    confinement: Confinement,
    files: ServerFiles,
  ): Promise<StartedChild> {
    await reaper.start();
    await ensurePrivateFolder(launch.tmpDir);
    try {
      const tmpDir = realpathSync.native(launch.tmpDir);
      const home = join(tmpDir, 'home');
      mkdirSync(home, { recursive: true, mode: 0o700 });
      // Outside what the process may write.
      const profile = join(tmpRoot, `${basename(tmpDir)}.sb`);
      writeFileSync(profile, createSeatbeltProfile(confinement, files, tmpDir), { mode: 0o600 });
      const env = {
        PATH: [...files.searched, '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
        HOME: home,
        LANG: 'C.UTF-8',
        ...launch.env,
        TMPDIR: launch.tmpDir,
      };
      launch.beforeSpawn?.();
      const args = ['-f', profile, files.program, ...launch.args];
      const cwd = confinement.home.source;
      return await spawnTracked({ command: sandboxExec, args, env, cwd, stdio: 'pipe', tmpDir: launch.tmpDir }, reaper);
    } catch (error) {
      await removeFolder(launch.tmpDir);
      throw error;
    }
  }

  async function probeSandbox(): Promise<ProbeResult> {
    if (process.platform !== 'darwin' || !isProgram(sandboxExec)) {
      throw sandboxUnavailable('"sandbox-exec" was not found', 'Run Ambit on macOS or Linux.');
    }
    const names = [`probe-s${process.pid}-${++probes}`, `probe-o${process.pid}-${probes}`];
    const [tmpDir = '', outside = ''] = names.map((name) => join(realpathSync.native(tmpRoot), name));
    await ensurePrivateFolder(tmpDir);
    await ensurePrivateFolder(outside);
    writeFileSync(join(outside, 'mark'), '');
    const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      const script = seatbeltProbeScript(outside, (server.address() as AddressInfo).port);
      const home: Mount = { source: tmpDir, target: tmpDir };
      const child = await spawnServer(...createProbe(script, tmpDir, home));
      const running = superviseChild(child, timing, () => void reaper.release(child.pid, tmpDir));
      const [output, errors] = await readProbeOutput(running, probeLimitMs);
      const enforced = readSeatbeltProbe(output);
      if (enforced === undefined) throw seatbeltFailed(errors);
      const lacks = listMissingProtections(enforced);
      if (lacks.length > 0)
        throw sandboxUnavailable(
          `these protections are missing inside the sandbox of macOS: ${lacks.join(', ')}`,
          'Run Ambit on Linux.',
        );
      return { enforced, limits: enforcedLimits };
    } finally {
      server.close();
      await removeFolder(outside);
    }
  }

  function probe(): Promise<ProbeResult> {
    probed ??= probeSandbox();
    probed.catch(() => {
      probed = undefined;
    });
    return probed;
  }

  return {
    name: 'seatbelt',
    keepsPaths: true,
    probe,
    async start(launch) {
      const { confinement, command, args } = launch;
      if (confinement === undefined) throw new Error('The rules for the sandbox of this process are missing.');
      refuseHosts(launch);
      refuseVolume(confinement);
      await probe();
      const searchPath = launch.env['PATH'] ?? process.env['PATH'];
      const files = serverFiles({ command, args, searchPath, ...visibilityRulesOf(confinement) });
      const child = await spawnServer(launch, confinement, files);
      const onGone = () => void reaper.release(child.pid, launch.tmpDir);
      const { limits } = confinement;
      return superviseBounded(child, { bounds: noBounds, limits, watchdog, timing, onGone });
    },
  };
}

/** Creates the profile of a process. Paths cannot be renamed here: everything is granted under its own path. */
export function createSeatbeltProfile(confinement: Confinement, files: ServerFiles, tmpDir: string): string {
  const { home, readable, writable, frozen, masked = [] } = confinement;
  return seatbeltProfile({
    readable: [...readable, ...files.mounts].map(({ source }) => source),
    writable: [home, ...writable].map(({ source, guard }) => ({ path: source, guard })),
    frozen: frozen?.map(({ source }) => source),
    secret: [
      ...(frozen === undefined ? [home, ...writable].flatMap(({ source }) => findSettingsWithSecrets(source)) : []),
      ...masked,
      ...findMachineCredentials(),
    ],
    tmpDir,
  });
}

const settingsAtTop = ['.npmrc', '.yarnrc', '.yarnrc.yml', '.gitconfig', '.git-credentials', '.mcp.json', 'mise.toml']
  .concat('.git/config', '.git/config.worktree', '.git/credentials')
  .concat('.cargo/config', '.cargo/config.toml', '.cargo/credentials', '.cargo/credentials.toml')
  .concat('.hg/hgrc', '.sl/config', '.bundle/config', 'bunfig.toml', 'NuGet.Config', '.flaskenv', '.Renviron');

/** Finds settings with credentials. Only those at the top are known. */
function findSettingsWithSecrets(folder: string): string[] {
  return settingsAtTop.flatMap((name) => {
    const path = join(folder, name);
    const redact = findRedaction(name.split('/'));
    if (redact === undefined || !lstatSync(path, { throwIfNoEntry: false })?.isFile()) return [];
    const content = readFileSync(path);
    return redactBytes(content, redact).equals(content) ? [] : [path];
  });
}

function seatbeltFailed(said: string): Error {
  if (/sandbox_apply: Operation not permitted/.test(said)) {
    return sandboxUnavailable(
      'Ambit runs in a sandbox itself, and macOS does not allow nested sandboxes',
      'Start Ambit outside of a sandbox.',
    );
  }
  const words = (said.trim().split('\n').at(-1) ?? '').replace(/\/\S+/g, '…').slice(0, 300);
  return sandboxUnavailable(words || 'sandbox-exec does not work', 'Run "sandbox-exec" by hand to see more.');
}

/** A script that tries forbidden things; the file and the port exist for it. */
export function seatbeltProbeScript(outside: string, port: number): string {
  return [
    `(cat '${outside}/mark') 2>/dev/null && echo 'outside: read'`,
    `(echo x > '${outside}/written') 2>/dev/null && echo 'outside: written'`,
    `/usr/bin/nc -z -w 1 127.0.0.1 ${port} 2>/dev/null && echo 'network: reached'`,
    'echo finished',
  ].join('\n');
}

export function readSeatbeltProbe(said: string): ProbeResult['enforced'] | undefined {
  const lines = said.split('\n');
  if (!lines.includes('finished')) return undefined;
  return {
    noReadingOutside: !lines.includes('outside: read'),
    noWritingOutside: !lines.includes('outside: written'),
    noNetwork: !lines.includes('network: reached'),
  };
}

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
