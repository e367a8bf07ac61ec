import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { findProgramOnPath, withoutProjectFolders } from '../common/find-program.ts';
import { bunKind } from './bun-kind.ts';
import { type FetchOptions, openFetchSandbox } from './fetch-sandbox.ts';
import { npmKind } from './npm-kind.ts';
import { dropNpmSettings, isSetByProject } from './npm-sources.ts';
import { type PackageCommand, type PackageTool, readPackageCommand } from './package-command.ts';
import type { FetchedPin, PackageKind, StartCommand } from './package-kind.ts';
import type { PackageSources } from './package-sources.ts';
import { assertTreeSize, defaultBounds, TooLargeError } from './package-tree.ts';
import { readFileStart } from './read-package-file.ts';
import { installHint, isRegistrySpec, OffenderError, refuseOffender, showWord } from './registry-check.ts';
import { uvKind } from './uv-kind.ts';

const maxLogBytes = 8 << 20;

/** npm writes one log for each run. */
const maxLogs = 4;

const fetchMarker = ' silly fetch manifest ';

const kinds = { npx: npmKind, bunx: bunKind, uvx: uvKind } as Readonly<
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
}

/** Increased when more is checked: older packages are then fetched again, from their lock files. */
const rules = 1;

interface KeptPackage {
  readonly pin: FetchedPin;
  /** The name of its folder. */
  readonly content: string;
  /** The rules it was checked by. */
  readonly rules?: number;
}

export function createPackages(options: PackagesOptions): Packages {
  const underWay = new Map<string, Promise<string>>();
  // Read at start, before any server could change the file.
  const hasProjectSettings = isSetByProject(options.env());

  /** Returns the folder of a package, and fetches it if needed. */
  async function ensureContent(wanted: PackageCommand): Promise<string> {
    const home = packageHome(options.folder, wanted);
    const found = findKeptContent(home);
    if (found !== undefined) return found;
    makePrivateFolder(dirname(home));
    return withLongLock(home, lockTimeoutMs, async () => findKeptContent(home) ?? (await fetchPackage(wanted, home)));
  }

  async function fetchPackage(wanted: PackageCommand, home: string): Promise<string> {
    const before = readKeptPackage(home);
    const content = `content-${randomBytes(6).toString('hex')}`;
    const folder = join(home, content);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      const pin = await fetchInto(folder, wanted, before === undefined ? undefined : home);
      if (before !== undefined && JSON.stringify(before.pin) !== JSON.stringify(pin)) {
        throw new Error('what came is not what was pinned');
      }
      const { lockFiles } = kinds[wanted.tool];
      if (before === undefined) for (const name of lockFiles) copyFileSync(join(folder, name), join(home, name));
      writeAtomically(join(home, 'pin.json'), `${JSON.stringify({ pin, content, rules } satisfies KeptPackage)}\n`);
    } catch (error) {
      await removeFolder(folder);
      throw isAmbitError(error) ? error : fetchFailed(wanted, { ...explainFailure(error), cause: error });
    }
    // Leftovers of an interrupted fetch.
    for (const name of readdirSync(home)) {
      if (name.startsWith('content-') && name !== content) await removeFolder(join(home, name));
    }
    return folder;
  }

  /** `locks` is the folder of the lock files, once the version is pinned. */
  async function fetchInto(folder: string, wanted: PackageCommand, locks: string | undefined): Promise<FetchedPin> {
    const kind = kinds[wanted.tool];
    const given = hasProjectSettings ? dropNpmSettings(options.env()) : options.env();
    const env = { ...given, PATH: withoutProjectFolders(given['PATH']) };
    const fetcher = findProgramOnPath(kind.fetcher, env['PATH']);
    if (fetcher === undefined) {
      throw fetchFailed(wanted, { why: `"${kind.fetcher}" is not on the PATH of Ambit`, hint: kind.installHint });
    }
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
      else for (const name of kind.lockFiles) copyFileSync(join(locks, name), join(folder, name));
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
      const home = packageHome(options.folder, wanted);
      let content = underWay.get(home);
      if (content === undefined) {
        content = ensureContent(wanted).finally(() => underWay.delete(home));
        underWay.set(home, content);
      }
      return kinds[wanted.tool].findStartCommand(wanted, await content);
    },
  };
}

/** Reads the version of a package when it was first fetched; undefined before that, or where the command names none. */
export function readPackagePin(folder: string, command: string, args: readonly string[]): FetchedPin | undefined {
  try {
    const wanted = readPackageCommand(command, args);
    return wanted === undefined ? undefined : readKeptPackage(packageHome(folder, wanted))?.pin;
  } catch {
    return undefined;
  }
}

/** The folder of a package. Each specifier has its own: `a` and `a@2` may be different versions. */
function packageHome(folder: string, { tool, name, wanted, runtime }: PackageCommand): string {
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  const python = tool === 'uvx' ? runtime : undefined;
  return join(folder, `${tool}-${readable}-${sha256Hex(JSON.stringify([tool, name, wanted, python])).slice(0, 16)}`);
}

function readKeptPackage(home: string): KeptPackage | undefined {
  try {
    return JSON.parse(readFileSync(join(home, 'pin.json'), 'utf8')) as KeptPackage;
  } catch {
    return undefined;
  }
}

function findKeptContent(home: string): string | undefined {
  const kept = readKeptPackage(home);
  if (kept?.rules !== rules) return undefined;
  const folder = join(home, kept.content);
  return existsSync(folder) ? folder : undefined;
}

interface Reason {
  readonly why: string;
  readonly hint?: string;
}

/** Explains why a fetch failed. The output of the tool is for the operator, in the cause; a caller sees its code. */
function explainFailure(error: unknown): Reason {
  if (error instanceof OffenderError)
    return { why: `it brings ${error.message}. Only what a registry has is fetched`, hint: installHint };
  if (error instanceof TooLargeError) return { why: `it has ${error.message}`, hint: installHint };
  const said = String(error);
  const [, refused] = /\(refused: ([^)]*)\)/.exec(said) ?? [];
  if (refused !== undefined) {
    return {
      why: `it needs ${showWord(refused)}, and a fetch reaches only the registry`,
      hint: 'Use a registry that serves its packages itself, or install the package yourself and name its program.',
    };
  }
  const code = /\bnpm error code (E[A-Z0-9]+)/.exec(said)?.[1];
  if (code === 'E404' || /not found in the package registry|404/i.test(said))
    return { why: 'there is no such package' };
  if (code === 'ETARGET' || /no version matching/i.test(said)) return { why: 'there is no such version' };
  if (code !== undefined) return { why: `npm says ${code}` };
  return { why: 'the registry could not be asked, or the package needs to be built' };
}

function fetchFailed({ name, wanted }: PackageCommand, { why, hint, cause }: Reason & { cause?: unknown }): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${wanted === '' ? name : `${name}@${wanted}`}" could not be fetched: ${why}.`,
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

/** Throws, with the name of the offender, if a tool failed because a dependency is in no registry. */
export function refuseUnresolved(said: string, cache: string): void {
  const byBun = said.matchAll(/^error: (@?[^@\s]+)@(\S+) failed to resolve$/gm);
  for (const [, name = '', spec] of [...parseFetches(readNpmLogs(cache)), ...byBun]) {
    if (!isRegistrySpec(spec)) refuseOffender(`"${showWord(name)}", which is asked for as "${showWord(spec)}"`);
  }
  const [, found, asked] = /Package `([^`]+)` was included as a URL dependency.*?`[^`]* @ ([^`]*)`/s.exec(said) ?? [];
  if (found !== undefined) refuseOffender(`"${showWord(found)}", which is asked for as "${showWord(asked)}"`);
  const [, builtByUv] = /Wheels are required for `([^`]+)` because building/.exec(said) ?? [];
  if (builtByUv !== undefined) refuseOffender(`"${showWord(builtByUv)}", which has to be built`);
  const [, url] = /Unsupported URL Type "[^"]*": (\S+)/.exec(said) ?? [];
  if (url !== undefined) refuseOffender(`something that is asked for as "${showWord(url)}"`);
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
