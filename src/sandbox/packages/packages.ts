import { lstatSync, readdirSync, realpathSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { formatHostAndPort } from '../../lib/net/host-and-port.ts';
import type { Mount } from '../common/confinement.ts';
import { findProgramOnPath, withoutProjectFolders } from '../common/find-program.ts';
import { openEgress } from '../egress/open-egress.ts';
import type { ResourceLimits } from '../limits/limits.ts';
import type { SandboxRunner } from '../runner.ts';
import { bunKind } from './bun-kind.ts';
import { InstallTimeoutError } from './installer.ts';
import { npmKind } from './npm-kind.ts';
import { formatSpecifier, type PackageCommand, type PackageTool, readPackageCommand } from './package-command.ts';
import type { FetchedPin, PackageKind, RunTool, StartCommand } from './package-kind.ts';
import {
  cacheFolder,
  dropNpmSettings,
  isSetByProject,
  type PackageSources,
  settingsFolder,
} from './package-sources.ts';
import {
  assertTreeSize,
  copyLockFiles,
  createPackageStore,
  defaultBounds,
  type OnInstall,
  readKeptPin,
  TooLargeError,
  type TreeBounds,
  watchTree,
} from './package-store.ts';
import {
  installHint,
  isRegistrySpec,
  OffenderError,
  readFileStart,
  refuseOffender,
  showWord,
} from './read-package-file.ts';
import { uvKind } from './uv-kind.ts';

const maxLogBytes = 8 << 20;

/** npm writes one log for each run. */
const maxLogs = 4;

const fetchMarker = ' silly fetch manifest ';

export const packageKinds = { npx: npmKind, bunx: bunKind, uvx: uvKind } as Readonly<
  Record<PackageTool, PackageKind<PackageSources>>
>;
const lockTimeoutMs = 600_000;

/** Packages that servers are started from, fetched once and pinned. */
export interface Packages {
  /** Returns the command to start for a package; any other command stays as it is. */
  ready(command: string, args: readonly string[]): Promise<StartCommand>;
}

interface PackagesOptions extends Omit<FetchOptions, 'hidden' | 'searchPath'> {
  /** The folder of packages, which survives a restart of Ambit. */
  readonly folder: string;
  readonly env: () => NodeJS.ProcessEnv;
  readonly onInstall?: OnInstall | undefined;
}

export function createPackages(options: PackagesOptions): Packages {
  const store = createPackageStore({ ...options, lockTimeoutMs });
  // Read at start, before any server could change the file.
  const hasProjectSettings = isSetByProject(options.env());

  /** `locks` is the folder of the lock files, once the version is pinned. */
  async function fetchInto(folder: string, wanted: PackageCommand, locks: string | undefined): Promise<FetchedPin> {
    const kind = packageKinds[wanted.tool];
    const given = hasProjectSettings ? dropNpmSettings(options.env()) : options.env();
    const env = { ...given, PATH: withoutProjectFolders(given['PATH']) };
    const fetcher = findProgramOnPath(kind.fetcher, env['PATH']);
    if (fetcher === undefined) throw toolMissing(wanted, kind);
    const sources = await kind.findSources({ env, fetcher }, wanted);
    const sandbox = await openFetchSandbox(fetcher, sources, {
      ...options,
      hidden: [options.folder],
      searchPath: env['PATH'] ?? '',
    });
    try {
      if (locks === undefined)
        await kind.resolve(wanted, folder, sandbox.run).catch((error: unknown) => {
          refuseUnresolved(String(error), sandbox.cache);
          throw error;
        });
      else copyLockFiles(kind.lockFiles, locks, folder);
      kind.checkLock(folder, sources);
      await kind.install(wanted, folder, sandbox.run);
      await assertTreeSize([folder], options.bounds ?? defaultBounds);
      await kind.checkInstalled(folder, sources);
      return kind.readPin(wanted, folder);
    } finally {
      await sandbox.close();
    }
  }

  return {
    async ready(command, args) {
      const wanted = readPackageCommand(command, args);
      if (wanted === undefined) return { command, args };
      const kind = packageKinds[wanted.tool];
      const fetch = (folder: string, locks: string | undefined) =>
        fetchInto(folder, wanted, locks).catch((error: unknown) => {
          throw explainFetchFailure(wanted, error);
        });
      return kind.findStartCommand(wanted, await store.ensureContent({ wanted, kind, fetch }));
    },
  };
}

/** Reads the version of a package when it was first fetched; undefined before that, or where the command names none. */
export function readPackagePin(folder: string, command: string, args: readonly string[]): FetchedPin | undefined {
  try {
    const wanted = readPackageCommand(command, args);
    return wanted === undefined ? undefined : readKeptPin(folder, wanted);
  } catch {
    return undefined;
  }
}

function networkHint(code: string): { hint?: string } {
  const isNetwork = /^(?:ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|\w*CERT\w*)$/.test(code);
  return isNetwork ? { hint: 'Check the network, and the registry, proxy and certificate settings of npm.' } : {};
}

/** Reads the reason in the output of a tool: the first line of npm after its code, or the error of uv and its cause. */
function readToolReason(output: string): string | undefined {
  const lines = output.split('\n').map((line) => line.trim());
  const npm = lines.find((line) => /^npm error (?!code |errno |syscall |path |command )\S/.test(line));
  const other = lines.find((line) => /(?:^|: )(?:error:|×)\s*\S/.test(line));
  const cause = npm === undefined ? lines.find((line) => line.startsWith('cause: ')) : undefined;
  const first = (npm ?? other)?.replace(/^.*?(?:npm error(?: network)?|error:|×)\s*/, '');
  const reason = first === undefined || cause === undefined ? first : `${first}: ${cause.slice('cause: '.length)}`;
  // Paths of this machine are for the operator.
  const shown = reason === undefined ? undefined : showWord(reason.replace(/(^|[\s"'`(])\/\S+/g, '$1[path]'));
  // A script of the package may have written it, and a model reads it.
  return shown === undefined ? undefined : `the output says: "${shown.replaceAll('"', "'")}"`;
}

const slowHint = 'Check the network, then start the server again. Completed downloads are kept.';

interface FetchFailureReason {
  readonly why: string;
  readonly hint?: string;
}

/** Explains why a fetch failed. The output of the tool is for the operator, in the cause; a caller sees its code. */
function explainFailure(error: unknown): FetchFailureReason {
  if (error instanceof OffenderError)
    return { why: `it includes ${error.message}. Only packages from a registry are downloaded`, hint: installHint };
  if (error instanceof TooLargeError) return { why: `it contains ${error.message}`, hint: installHint };
  if (error instanceof InstallTimeoutError) return { why: error.message, hint: slowHint };
  const said = String(error);
  const [, refused] = /\(refused: ([^)]*)\)/.exec(said) ?? [];
  if (refused !== undefined) {
    return {
      why: `its download needs ${showWord(refused)}, and only the registry is reachable`,
      hint: 'Use a registry that serves its packages itself, or install the package yourself and use its program as the command.',
    };
  }
  const code = /\bnpm error code ([A-Z][A-Z0-9_]+)/.exec(said)?.[1];
  // Hashes, ports and times in the output of npm can contain "404", so its code decides.
  const isMissing = code === undefined ? /not found in the package registry|\b404\b/i.test(said) : code === 'E404';
  if (isMissing) return { why: 'there is no such package', hint: 'Check the name and the configured registry.' };
  if (code === 'ETARGET' || /no version matching/i.test(said))
    return { why: 'there is no such version', hint: 'Check the version.' };
  const detail = readToolReason(said);
  if (code !== undefined)
    return { why: `npm says ${code}${detail === undefined ? '' : ` (${detail})`}`, ...networkHint(code) };
  const likely = 'the registry was not reachable, or the package could not be built';
  return { why: detail === undefined ? likely : `${likely} (${detail})` };
}

/** The error for a machine without the program that fetches. */
export function toolMissing(wanted: PackageCommand, kind: Pick<PackageKind, 'fetcher' | 'installHint'>): AmbitError {
  return fetchFailed(wanted, {
    why: `"${kind.fetcher}" was not found on the PATH`,
    hint: kind.installHint,
  });
}

/** Turns the error of a fetch into one for callers. */
export function explainFetchFailure(wanted: PackageCommand, error: unknown): AmbitError {
  return isAmbitError(error)
    ? withPackageName(error, wanted)
    : fetchFailed(wanted, { ...explainFailure(error), cause: error });
}

export function fetchFailed(
  wanted: PackageCommand,
  { why, hint, cause }: FetchFailureReason & { cause?: unknown },
): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${formatSpecifier(wanted)}" could not be downloaded: ${why}.`,
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

/** Adds the package to a failure that names only the tool, such as a missing Python for uvx. */
function withPackageName(error: AmbitError, wanted: PackageCommand): AmbitError {
  if (error.code !== 'UPSTREAM_FAILED' || error.message.includes(wanted.name)) return error;
  return fetchFailed(wanted, { why: error.message.replace(/\.$/, ''), hint: error.hint, cause: error.cause });
}

/** Throws, with the name of the offender, if a tool failed because a dependency is in no registry. */
export function refuseUnresolved(said: string, cache: string): void {
  const byBun = said.matchAll(/^error: (@?[^@\s]+)@(\S+) failed to resolve$/gm);
  for (const [, name = '', spec] of [...parseFetches(readNpmLogs(cache)), ...byBun]) {
    if (!isRegistrySpec(spec)) refuseOffender(`"${showWord(name)}", which is required as "${showWord(spec)}"`);
  }
  const [, found, asked] = /Package `([^`]+)` was included as a URL dependency.*?`[^`]* @ ([^`]*)`/s.exec(said) ?? [];
  if (found !== undefined) refuseOffender(`"${showWord(found)}", which is required as "${showWord(asked)}"`);
  const [, builtByUv] = /Wheels are required for `([^`]+)` because building/.exec(said) ?? [];
  if (builtByUv !== undefined) refuseOffender(`"${showWord(builtByUv)}", which has to be built`);
  const [, url] = /Unsupported URL Type "[^"]*": (\S+)/.exec(said) ?? [];
  if (url !== undefined) refuseOffender(`something that is required as "${showWord(url)}"`);
  const [, outside] = /invalid lockfile entry: "([^"]*)" resolves outside/.exec(said) ?? [];
  if (outside !== undefined) refuseOffender(`"${showWord(outside)}", which lies outside of its folder`);
  const [, target, name] = /Missing target in lock file: "([^"]*)" is referenced by "([^"]*)"/.exec(said) ?? [];
  if (name !== undefined) refuseOffender(`"${showWord(name)}", which is a link to "${showWord(target)}"`);
}

/** Parses npm's log for what it asked the registry for. A stranger chooses the names in it. */
function parseFetches(log: string): RegExpExecArray[] {
  return log.split('\n').flatMap((line) => {
    const at = line.indexOf(fetchMarker);
    const asked = at === -1 ? null : /^(@?[^@]+)@(.*)$/s.exec(line.slice(at + fetchMarker.length));
    return asked === null ? [] : [asked];
  });
}

/** npm writes a log of its own, with every step. */
function readNpmLogs(cache: string): string {
  try {
    const folder = join(cache, 'logs');
    if (!lstatSync(folder).isDirectory()) return '';
    const names = readdirSync(folder).slice(0, maxLogs);
    return names.map((name) => readFileStart(join(folder, name), maxLogBytes).toString('utf8')).join('\n');
  } catch {
    return '';
  }
}

interface FetchOptions {
  /** The sandbox in which packages are fetched; rejects where there is none. */
  readonly sandbox: () => Promise<SandboxRunner>;
  /** The instance's folder: after a crash, leftovers in it are removed with it. */
  readonly tmpRoot: string;
  /** Paths that are never shown in the sandbox, as real paths. */
  readonly hidden: readonly string[];
  /** The PATH on which the tool finds other programs, such as its Node. */
  readonly searchPath: string;
  /** The size that a package may have on the disk. */
  readonly bounds?: TreeBounds;
}

export interface FetchSandbox {
  readonly run: RunTool;
  /** The folder of the tool's cache and logs. */
  readonly cache: string;
  /** Removes the credentials and the cache. */
  close(): Promise<void>;
}

const limits: ResourceLimits = { memoryMb: 2048, pids: 256, cpus: 2, fileMb: 2048, openFiles: 1024, wallSeconds: 300 };
const maxOutputBytes = 16_384;
let fetchCount = 0;

/**
 * Opens a sandbox for one fetch. The tool inside sees the folder it fetches into, its own settings and cache, and
 * nothing else of this machine. It reaches only the registries. The settings and the cache lie outside of the folder,
 * so no server ever sees them.
 */
async function openFetchSandbox(
  program: string,
  sources: PackageSources,
  { sandbox, tmpRoot, hidden, searchPath, bounds = defaultBounds }: FetchOptions,
): Promise<FetchSandbox> {
  const runner = await sandbox();
  const work = join(tmpRoot, `fetch-${process.pid}-${++fetchCount}`);
  const [settings, cache] = [join(work, 'settings'), join(work, 'cache')];
  await mkdir(settings, { recursive: true, mode: 0o700 });
  await mkdir(cache, { mode: 0o700 });
  const refused: string[] = [];
  try {
    for (const [name, content] of Object.entries(sources.files)) {
      await writeFile(join(settings, name), content, { flag: 'wx', mode: 0o600 });
    }
    const egress = await openEgress({
      allowed: sources.hosts,
      folder: work,
      allowPrivate: true,
      onRefused: ({ to }) => void (refused.length < 10 && refused.push(to)),
      proxyFor: (wanted) => sources.proxyFor(formatHostAndPort(wanted)),
    });
    const readable: Mount[] = [
      { source: realpathSync.native(settings), target: settingsFolder },
      ...(sources.readable ?? []).map((path): Mount => ({ source: path, target: path })),
    ];
    return {
      cache,
      async run(args, folder) {
        const real = realpathSync.native(folder);
        const running = await runner.start({
          command: program,
          args,
          env: { ...sources.env, PATH: searchPath },
          cwd: folder,
          tmpDir: join(tmpRoot, `fetch-${process.pid}-${++fetchCount}`),
          confinement: {
            home: { source: real, target: real },
            readable,
            writable: [{ source: realpathSync.native(cache), target: cacheFolder }],
            hidden,
            limits,
          },
          egressProxy: { socket: egress.socket, allowed: sources.hosts },
        });
        running.stdin.end();
        let said = '';
        for (const stream of [running.stdout, running.stderr]) {
          stream.on('data', (bytes: Buffer) => {
            said = (said + bytes.toString('utf8')).slice(-maxOutputBytes);
          });
        }
        const stopWatching = watchTree([real, cache], bounds, () => void running.end());
        const { code, signal, reason } = await running.exited;
        const tooLarge = await stopWatching();
        if (tooLarge !== undefined) throw tooLarge;
        if (code === 0) return;
        const refusals = refused.length === 0 ? '' : ` (refused: ${refused.join(', ')})`;
        const words = sources.secrets.reduce((text, secret) => text.replaceAll(secret, '…'), said.trim());
        throw new Error(`${args[0]} ended with ${reason ?? signal ?? code}${refusals}: ${words}`);
      },
      async close() {
        await egress.close();
        await removeFolder(work);
      },
    };
  } catch (error) {
    await removeFolder(work);
    throw error;
  }
}
