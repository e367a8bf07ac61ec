import { accessSync, constants, existsSync, lstatSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findWorkspaceProblems, listWorkspaceFolders } from '../../config/load/workspace-folders.ts';
import { isAmbitError } from '../../errors.ts';
import { findPrivacyObstacle } from '../../lib/fs/private-files.ts';
import { inspectMachine, type Machine } from '../../sandbox/common/machine.ts';
import { extractSandboxProblem } from '../../sandbox/common/sandbox-errors.ts';
import { createTmpRoot } from '../../sandbox/common/sweep-leftovers.ts';
import { createLimiter } from '../../sandbox/limits/limiter.ts';
import {
  type EnforcedLimits,
  type LimitEnforcer,
  type ResourceLimits,
  suggestLimitRemedy,
} from '../../sandbox/limits/limits.ts';
import { createReaper } from '../../sandbox/reaper/reaper.ts';
import type { ProbeResult, SandboxRunner } from '../../sandbox/runner.ts';
import { createRunners } from '../../sandbox/runners.ts';
import { openStore, type StoreSettings, storeKinds } from '../../stores/store-kinds.ts';
import { findLaunchObstacle } from '../../upstreams/access/launch-obstacle.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { selectPlatformFs } from '../../workspaces/saferoot/platform/select-platform-fs.ts';
import { type Command, jsonFlag } from '../command.ts';
import { loadConfiguration } from '../io/config-paths.ts';
import { announceConfiguration, findGateway } from '../io/find-gateway.ts';
import { findTextWidth, paintState, paintText, printData, wrapText } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';

const gap = 2;
const renderStoreName = (name: string): string => (name === 'data directory' ? name : `store ${name}`);

export const doctorCommand: Command = {
  help: 'Check what this machine supports and how to fix the rest',
  flags: { json: jsonFlag },
  async run(invocation) {
    // It examines the machine in any case, so it refuses nothing where several gateways are running.
    const paths = await findGateway(invocation, { orDefault: true });
    const config = existsSync(paths.configFile) ? await loadConfiguration(paths) : undefined;
    if (config !== undefined) announceConfiguration(invocation, paths);
    const { store = { kind: 'sqlite' as const } } = config ?? {};
    const servers = config === undefined ? [] : defineServers(config, dirname(paths.configFile)).values();
    const workspaceProblems = config === undefined ? [] : findWorkspaceProblems(config, true);
    const folders = config === undefined ? [] : listWorkspaceFolders(config);
    const examination = await showProgress(
      'Checking this machine',
      examineMachine({ store, dataDir: paths.dataDir, servers, folders, workspaceProblems }),
    );
    printData(invocation, examination, () => renderExamination(examination));
    return examination.ok ? 0 : 1;
  },
};

/** Renders the findings as a table no wider than a terminal, and the remedies below it. */
export function renderExamination({ findings }: Examination): string {
  const names = findings.map(({ kind, name }) =>
    kind === 'limit' || kind === 'server' ? `${kind} ${name}` : kind === 'store' ? renderStoreName(name) : name,
  );
  const nameWidth = Math.max(...names.map((name) => name.length));
  const stateWidth = Math.max(...findings.map(({ state }) => state.length));
  const indent = nameWidth + stateWidth + 2 * gap;
  const rows = findings.flatMap(({ state, detail }, i) => {
    const [first = '', ...more] = wrapText(detail, findTextWidth() - indent);
    const name = (names[i] as string).padEnd(nameWidth + gap);
    return [
      `${name}${paintState(state.padEnd(stateWidth + gap))}${first}`,
      ...more.map((line) => ' '.repeat(indent) + line),
    ];
  });
  return [...rows, ...renderRemedies(findings, names)].map((line) => line.trimEnd()).join('\n');
}

/** Lists each remedy once, also when it fixes several findings. */
function renderRemedies(findings: readonly Finding[], names: readonly string[]): string[] {
  const remedies = new Map<string, string[]>();
  findings.forEach(({ remedy }, i) => {
    if (remedy !== null) remedies.set(remedy, [...(remedies.get(remedy) ?? []), names[i] as string]);
  });
  return [...remedies].flatMap(([remedy, whose]) => [
    '',
    ...wrapText(`${whose.join(', ')}:`, findTextWidth()).map((line) => paintText('bold', line)),
    ...wrapText(remedy, findTextWidth() - gap).map((line) => ' '.repeat(gap) + line),
  ]);
}

interface Finding {
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
