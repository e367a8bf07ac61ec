import { once } from 'node:events';
import { lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { findRedaction, redactBytes } from '../../lib/redact/redact-settings.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { isProgram } from '../common/find-program.ts';
import { findMachineCredentials } from '../common/machine-credentials.ts';
import { createProbe, listMissingProtections, readProbeOutput } from '../common/probe.ts';
import { refuseHosts, refuseVolume, sandboxUnavailable } from '../common/sandbox-errors.ts';
import { type ServerFiles, serverFiles } from '../common/server-files.ts';
import { visibilityRulesOf } from '../common/visibility-filter.ts';
import type { EnforcedLimits } from '../limits/limits.ts';
import { createWatchdog, noBounds, superviseBounded } from '../limits/supervise-bounded.ts';
import { ensurePrivateFolder, type StartedChild, spawnTracked, superviseChild } from '../processes/supervise.ts';
import type { ProbeResult, ProcessLaunch, RunnerOptions, SandboxRunner } from '../runner.ts';
import { seatbeltProfile } from './profile.ts';

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
