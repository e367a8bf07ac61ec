import { accessSync, constants, lstatSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { findWorkspaceProblems } from '../../config/load/workspace-folders.ts';
import { isAmbitError } from '../../errors.ts';
import { findPrivacyObstacle } from '../../lib/fs/private-files.ts';
import { inspectMachine, type Machine } from '../../sandbox/common/machine.ts';
import { extractSandboxProblem } from '../../sandbox/common/sandbox-errors.ts';
import { createTmpRoot } from '../../sandbox/common/sweep-leftovers.ts';
import { createLimiter } from '../../sandbox/limits/limiter.ts';
import type { EnforcedLimits, LimitEnforcer, ResourceLimits } from '../../sandbox/limits/limits.ts';
import { suggestLimitRemedy } from '../../sandbox/limits/limits.ts';
import { createReaper } from '../../sandbox/reaper/reaper.ts';
import type { ProbeResult, SandboxRunner } from '../../sandbox/runner.ts';
import { createRunners } from '../../sandbox/runners.ts';
import { openStore, type StoreSettings, storeKinds } from '../../stores/store-kinds.ts';
import { findLaunchObstacle } from '../../upstreams/access/launch-obstacle.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { selectPlatformFs } from '../../workspaces/saferoot/platform/select-platform-fs.ts';

export interface Finding {
  readonly kind: 'platform' | 'runner' | 'limit' | 'files' | 'store' | 'server';
  readonly name: string;
  /** `weak` works less well than it could; `missing` does not work. */
  readonly state: 'ok' | 'weak' | 'missing';
  readonly detail: string;
  /** The remedy on this machine, with the command where there is one. */
  readonly remedy: string | null;
}

export interface Examination {
  /** Whether sandboxed sessions can be served, records kept, files confined and servers found. */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

const byWatching = 'by Ambit, which checks twice a second';
const uncounted = 'released shared memory and data waiting in pipes and sockets are not counted';
const byKernel = 'enforced by the kernel';

interface ExaminedParts {
  readonly store: StoreSettings;
  readonly dataDir: string;
  readonly servers?: Iterable<ServerDefinition>;
  /** The folders of the workspaces. */
  readonly folders?: readonly string[];
  readonly workspaceProblems?: ReturnType<typeof findWorkspaceProblems>;
}

/** Examines what this machine can do. Starts no server, leaves nothing behind and touches no data of a gateway. */
export async function examineMachine(examined: ExaminedParts): Promise<Examination> {
  const { store, dataDir, servers = [], folders = [], workspaceProblems = [] } = examined;
  const runners = await examineRunners();
  const parts = [examinePlatform(), examineFileAccess(), await examineStore(store), examineDataDir(dataDir)];
  const workspaces = workspaceProblems.map(
    ({ workspace, message }): Finding => ({
      kind: 'files',
      name: `workspace ${workspace}`,
      state: 'missing',
      detail: message,
      remedy: `Correct workspaces.${workspace}.path, create the folder, or set "create: true" beside the path`,
    }),
  );
  const others = [...parts, ...workspaces, ...[...servers].flatMap((server) => examineServer(server, folders))];
  const hasSandbox = runners.some(({ kind, name, state }) => kind === 'runner' && name !== 'plain' && state === 'ok');
  const ok = hasSandbox && others.every(({ state }) => state !== 'missing');
  return { ok, findings: [...others.slice(0, 1), ...runners, ...others.slice(1)] };
}

function examinePlatform(): Finding {
  const detail = `${process.platform} ${process.arch}, Node ${process.versions.node}`;
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isOld = major < 20 || (major === 20 && minor < 19);
  return {
    kind: 'platform',
    name: 'platform',
    state: isOld ? 'missing' : 'ok',
    detail,
    remedy: isOld ? 'Install Node 20.19 or newer' : null,
  };
}

function examineFileAccess(): Finding {
  const about = { kind: 'files', name: 'file access' } as const;
  try {
    selectPlatformFs(process.platform, false);
    return { ...about, state: 'ok', detail: 'confined to the workspace', remedy: null };
  } catch (error) {
    return { ...about, state: 'missing', detail: (error as Error).message, remedy: 'Mount /proc' };
  }
}

/** Tries a database file in a temporary folder: the one of a gateway must not be opened. */
async function examineStore(settings: StoreSettings): Promise<Finding> {
  const about = { kind: 'store', name: settings.kind } as const;
  const place = mkdtempSync(join(tmpdir(), 'ambit-doctor-'));
  try {
    const store = await openStore(settings, place);
    try {
      await store.ping();
    } finally {
      await store.close();
    }
    const { isDurable } = storeKinds[settings.kind];
    const detail = isDurable ? 'works' : 'works, but all data is lost when the gateway stops';
    return { ...about, state: isDurable ? 'ok' : 'weak', detail, remedy: null };
  } catch (error) {
    const remedy = isAmbitError(error) ? error.hint : null;
    return { ...about, state: 'missing', detail: (error as Error).message, remedy };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

function examineDataDir(dataDir: string): Finding {
  const about = { kind: 'store', name: 'data directory' } as const;
  const remedy = 'Choose another with --data-dir DIR';
  const obstacle = findPrivacyObstacle(dataDir);
  if (obstacle !== undefined) return { ...about, state: 'missing', detail: obstacle, remedy };
  let place = dataDir;
  try {
    while (lstatSync(place, { throwIfNoEntry: false }) === undefined) place = dirname(place);
    const isFolder = statSync(place).isDirectory();
    if (!isFolder) return { ...about, state: 'missing', detail: `${place} is not a folder`, remedy };
    accessSync(place, constants.W_OK | constants.X_OK);
    return {
      ...about,
      state: 'ok',
      detail: place === dataDir ? dataDir : `${dataDir} (will be created)`,
      remedy: null,
    };
  } catch {
    return { ...about, state: 'missing', detail: `${place} is not writable`, remedy };
  }
}

/** Looks for the program and files of a server. Only starting it would show whether it works. */
function examineServer(server: ServerDefinition, folders: readonly string[]): Finding[] {
  if (server.kind !== 'stdio') return [];
  const about = { kind: 'server', name: server.name } as const;
  const searchPath = server.env['PATH'] ?? process.env['PATH'];
  for (const trust of server.trust) {
    const obstacle = findLaunchObstacle(server, { searchPath, folders, isSandboxed: trust === 'sandboxed' });
    if (obstacle === undefined) continue;
    const state = trust === 'direct' ? 'missing' : 'weak';
    const remedy = `Correct servers.${server.name} in the configuration, or install the missing program`;
    return [{ ...about, state, detail: `cannot start in a ${trust} session: ${obstacle}`, remedy }];
  }
  return [
    { ...about, state: 'ok', detail: `program found; "ambit server check ${server.name}" starts it`, remedy: null },
  ];
}

/** Starts each available sandbox in a temporary folder. */
async function examineRunners(): Promise<Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-doctor-'));
  const tmpRoot = await createTmpRoot(folder);
  const reaper = createReaper({ tmpRoot });
  try {
    const { plain, sandboxes, container } = createRunners({ reaper, tmpRoot, packages: join(folder, 'packages') });
    const direct: Finding = {
      kind: 'runner',
      name: plain.name,
      state: 'ok',
      detail: 'runs direct sessions, without a sandbox',
      remedy: null,
    };
    const probed = await Promise.all(sandboxes.map(examineRunner));
    const first = probed.find(({ result }) => result !== undefined);
    const limits = first?.result?.limits ?? (await createLimiter().inForce());
    const containers = probed[sandboxes.indexOf(container)];
    return [
      direct,
      ...probed.map(({ finding }) => finding),
      ...describeLimits(limits, inspectMachine(), containers?.result?.limits),
    ];
  } finally {
    await reaper.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function examineRunner(sandbox: SandboxRunner): Promise<{ finding: Finding; result?: ProbeResult }> {
  const about = { kind: 'runner', name: sandbox.name } as const;
  try {
    const result = await sandbox.probe();
    const holds = Object.keys(result.enforced).map(splitCamelCase).join(', ');
    const by = result.by === undefined ? '' : ` with ${result.by}`;
    return {
      finding: { ...about, state: 'ok', detail: `runs sandboxed sessions${by}: ${holds}`, remedy: null },
      result,
    };
  } catch (error) {
    const why = extractSandboxProblem(error as Error).replace(/\.$/, '');
    return { finding: { ...about, state: 'missing', detail: why, remedy: isAmbitError(error) ? error.hint : null } };
  }
}

/** The limits of the preferred sandbox, and how containers differ, which servers with an image always use. */
export function describeLimits(limits: EnforcedLimits, machine: Machine, inContainers = limits): Finding[] {
  return (Object.keys(limits) as (keyof ResourceLimits)[]).map((name) => {
    const means = limits[name];
    const remedy = suggestLimitRemedy(name, means, machine) ?? null;
    const weak = means === 'watchdog' || means === 'priority' || means.endsWith(' each');
    return {
      kind: 'limit',
      name,
      state: means === 'none' ? 'missing' : weak ? 'weak' : 'ok',
      detail: isSameKeeper(name, means, inContainers[name])
        ? describeKeeper(name, means)
        : `${describeKeeper(name, means)}; in containers: ${describeKeeper(name, inContainers[name])}`,
      remedy,
    };
  });
}

/** Compares who enforces a limit. By which mechanism the kernel does it makes no difference. */
function isSameKeeper(name: keyof ResourceLimits, one: LimitEnforcer, other: LimitEnforcer): boolean {
  return one === other || [one, other].every((each) => describeKeeper(name, each).startsWith(`${byKernel} (`));
}

function describeKeeper(name: keyof ResourceLimits, means: LimitEnforcer): string {
  if (means === 'watchdog') return `enforced ${byWatching}${name === 'memoryMb' ? `; ${uncounted}` : ''}`;
  if (means === 'priority') return 'not enforced; other processes get CPU time first';
  if (means === 'timer') return 'enforced by Ambit';
  if (means === 'none') return 'not enforced';
  if (!means.endsWith(' each')) return `${byKernel} (${means})`;
  const all = name === 'cpus' ? 'not enforced for the session as a whole' : `for the session as a whole ${byWatching}`;
  return `${byKernel} for each process (${means.replace(/ each$/, '')}), ${all}`;
}

/** `noNewPrivileges` becomes "no new privileges". */
function splitCamelCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
