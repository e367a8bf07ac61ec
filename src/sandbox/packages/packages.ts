import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { sha256 } from '../../lib/json/canonical-json.ts';
import { lookUp, withoutProjectFolders } from '../common/find-program.ts';
import { bunKind } from './bun-kind.ts';
import { type FetchPlace, type FetchSandbox, openFetchSandbox } from './fetch-sandbox.ts';
import { npmKind } from './npm-kind.ts';
import { isSetByProject, withoutNpmSettings } from './npm-sources.ts';
import { type PackageCommand, type PackageTool, readPackageCommand } from './package-command.ts';
import type { PackageKind, PackagePin, Started } from './package-kind.ts';
import type { PackageSources } from './package-sources.ts';
import { assertWithin, generousBounds, TooLargeError } from './package-tree.ts';
import { readStart } from './read-package-file.ts';
import { isRegistrySpec, OffenderError, refuseOffender, showWord } from './registry-check.ts';
import { uvKind } from './uv-kind.ts';

const mostBytes = 8 << 20;

/** npm writes one for each time it is run. */
const mostLogs = 4;

const fetching = ' silly fetch manifest ';

const kinds = { npx: npmKind, bunx: bunKind, uvx: uvKind } as Readonly<
  Record<PackageTool, PackageKind<PackageSources>>
>;
const patienceMs = 600_000;

/** Packages that servers are started from, fetched once and kept as they were then. */
export interface Packages {
  /** What to start where a command names a package; the command itself where it does not. */
  ready(command: string, args: readonly string[]): Promise<Started>;
}

export interface PackagesOptions extends Omit<FetchPlace, 'hidden' | 'searchPath'> {
  /** Kept from one start of Ambit to the next. */
  readonly folder: string;
  readonly env: () => NodeJS.ProcessEnv;
}

/** Raised when more is checked: what was fetched under older rules is fetched again, from its lock files. */
const rules = 1;

interface Kept {
  readonly pin: PackagePin;
  /** The name of the folder it lies in. */
  readonly content: string;
  /** The rules it was checked by. */
  readonly rules?: number;
}

export function createPackages(options: PackagesOptions): Packages {
  const underWay = new Map<string, Promise<string>>();
  // Read before any server is there that could change the file.
  const ofProject = isSetByProject(options.env());

  /** The folder where the package lies, fetched if need be. */
  async function contentOf(wanted: PackageCommand): Promise<string> {
    const home = homeOf(options.folder, wanted);
    const found = keptWhole(home);
    if (found !== undefined) return found;
    makePrivateFolder(dirname(home));
    return withLongLock(home, patienceMs, async () => keptWhole(home) ?? (await bring(wanted, home)));
  }

  async function bring(wanted: PackageCommand, home: string): Promise<string> {
    const before = readKept(home);
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
      writeAtomically(join(home, 'pin.json'), `${JSON.stringify({ pin, content, rules } satisfies Kept)}\n`);
    } catch (error) {
      await removeFolder(folder);
      throw isAmbitError(error) ? error : failed(wanted, { ...reasonIn(error), cause: error });
    }
    // What a fetch that was cut short has left.
    for (const name of readdirSync(home)) {
      if (name.startsWith('content-') && name !== content) await removeFolder(join(home, name));
    }
    return folder;
  }

  /** `locks` is where the lock files lie, once it is settled what the package is. */
  async function fetchInto(folder: string, wanted: PackageCommand, locks: string | undefined): Promise<PackagePin> {
    const kind = kinds[wanted.tool];
    const given = ofProject ? withoutNpmSettings(options.env()) : options.env();
    const env = { ...given, PATH: withoutProjectFolders(given['PATH']) };
    const fetcher = lookUp(kind.fetcher, env['PATH']);
    if (fetcher === undefined) {
      throw failed(wanted, { why: `"${kind.fetcher}" is not on the PATH of Ambit`, hint: kind.missing });
    }
    const sources = await kind.findSources({ env, fetcher }, wanted);
    const sandbox = await openFetchSandbox(fetcher, sources, {
      ...options,
      hidden: [options.folder],
      searchPath: env['PATH'] ?? '',
    });
    try {
      if (locks === undefined) await resolveLock(kind, wanted, folder, sandbox);
      else for (const name of kind.lockFiles) copyFileSync(join(locks, name), join(folder, name));
      kind.checkLock(folder, sources);
      await kind.install(wanted, folder, sandbox.run);
      await assertWithin([folder], options.bounds ?? generousBounds);
      await kind.checkInstalled(folder, sources);
      return kind.pinned(wanted, folder);
    } finally {
      await sandbox.close();
    }
  }

  return {
    async ready(command, args) {
      const wanted = readPackageCommand(command, args);
      if (wanted === undefined) return { command, args };
      const home = homeOf(options.folder, wanted);
      let content = underWay.get(home);
      if (content === undefined) {
        content = contentOf(wanted).finally(() => underWay.delete(home));
        underWay.set(home, content);
      }
      return kinds[wanted.tool].program(wanted, await content);
    },
  };
}

async function resolveLock(
  kind: PackageKind,
  wanted: PackageCommand,
  folder: string,
  { run, cache }: FetchSandbox,
): Promise<void> {
  try {
    await kind.resolve(wanted, folder, run);
  } catch (error) {
    refuseUnresolved(String(error), cache);
    throw error;
  }
}

/** What a package was when it was first fetched; undefined where it was not yet, or where the command names none. */
export function packagePin(folder: string, command: string, args: readonly string[]): PackagePin | undefined {
  try {
    const wanted = readPackageCommand(command, args);
    return wanted === undefined ? undefined : readKept(homeOf(folder, wanted))?.pin;
  } catch {
    return undefined;
  }
}

/** One for each thing that can be asked for: `a` and `a@2` may be different versions. */
function homeOf(folder: string, { tool, name, wanted, runtime }: PackageCommand): string {
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  const python = tool === 'uvx' ? runtime : undefined;
  return join(folder, `${tool}-${readable}-${sha256(JSON.stringify([tool, name, wanted, python])).slice(0, 16)}`);
}

function readKept(home: string): Kept | undefined {
  try {
    return JSON.parse(readFileSync(join(home, 'pin.json'), 'utf8')) as Kept;
  } catch {
    return undefined;
  }
}

function keptWhole(home: string): string | undefined {
  const kept = readKept(home);
  if (kept?.rules !== rules) return undefined;
  const folder = join(home, kept.content);
  return existsSync(folder) ? folder : undefined;
}

interface Reason {
  readonly why: string;
  /** What helps. */
  readonly hint?: string;
}

/** What a tool says is for the operator, in the cause; a caller hears its code. */
function reasonIn(error: unknown): Reason {
  if (error instanceof OffenderError) {
    return {
      why: `it brings ${error.message}. Only what a registry has is fetched`,
      hint: 'If you trust the package, install it yourself and name its program as the command.',
    };
  }
  if (error instanceof TooLargeError) {
    return {
      why: `it has ${error.message}`,
      hint: 'If you trust the package, install it yourself and name its program as the command.',
    };
  }
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

function failed({ name, wanted }: PackageCommand, { why, hint, cause }: Reason & { cause?: unknown }): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${wanted === '' ? name : `${name}@${wanted}`}" could not be fetched: ${why}.`,
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

/** Throws with the name of the offender where a tool could not resolve a tree because of something that is in no registry. */
export function refuseUnresolved(said: string, cache: string): void {
  const byBun = said.matchAll(/^error: (@?[^@\s]+)@(\S+) failed to resolve$/gm);
  for (const [, name = '', spec] of [...fetchesIn(logOf(cache)), ...byBun]) {
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

/** What npm asked the registry for, by the lines of its log. The names in them are a stranger's. */
function fetchesIn(log: string): RegExpExecArray[] {
  return log.split('\n').flatMap((line) => {
    const at = line.indexOf(fetching);
    const asked = at === -1 ? null : /^(@?[^@]+)@(.*)$/s.exec(line.slice(at + fetching.length));
    return asked === null ? [] : [asked];
  });
}

/** npm writes a log of its own, with every step. */
function logOf(cache: string): string {
  try {
    const folder = join(cache, 'logs');
    if (!lstatSync(folder).isDirectory()) return '';
    const names = readdirSync(folder).slice(0, mostLogs);
    return names.map((name) => readStart(join(folder, name), mostBytes).toString('utf8')).join('\n');
  } catch {
    return '';
  }
}
