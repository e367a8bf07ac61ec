import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sha256 } from '../../canonical-json.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withLongLock } from '../../file-lock.ts';
import { makePrivateFolder } from '../../private-files.ts';
import { writeAtomically } from '../../write-atomically.ts';
import { removeFolder } from '../remove-folder.ts';
import { bunKind } from './bun-kind.ts';
import { npmKind } from './npm-kind.ts';
import { type PackageCommand, type PackageTool, readPackageCommand } from './package-command.ts';
import type { PackageKind, PackagePin, Started } from './package-kind.ts';
import { type FetcherPlace, fetcherNamed } from './run-fetcher.ts';
import { uvKind } from './uv-kind.ts';

const kinds: Readonly<Record<PackageTool, PackageKind>> = { npx: npmKind, bunx: bunKind, uvx: uvKind };
const patienceMs = 600_000;

/** Packages that servers are started from, fetched once and kept as they were then. */
export interface Packages {
  /** What to start where a command names a package; the command itself where it does not. */
  ready(command: string, args: readonly string[]): Promise<Started>;
}

export interface PackagesOptions extends FetcherPlace {
  /** Kept from one start of Ambit to the next. */
  readonly folder: string;
}

interface Kept {
  readonly pin: PackagePin;
  /** The name of the folder it lies in. */
  readonly content: string;
}

export function createPackages(options: PackagesOptions): Packages {
  const underWay = new Map<string, Promise<string>>();

  /** The folder where the package lies, fetched if need be. */
  async function contentOf(wanted: PackageCommand): Promise<string> {
    const home = homeOf(options.folder, wanted);
    const found = keptWhole(home);
    if (found !== undefined) return found;
    makePrivateFolder(dirname(home));
    return withLongLock(home, patienceMs, async () => keptWhole(home) ?? (await bring(wanted, home)));
  }

  async function bring(wanted: PackageCommand, home: string): Promise<string> {
    const kind = kinds[wanted.tool];
    const run = fetcherNamed(kind.fetcher, options);
    if (run === undefined) {
      throw failed(wanted, `"${kind.fetcher}" is not on the PATH of Ambit`, kind.missing);
    }
    const before = readKept(home);
    const content = `content-${randomBytes(6).toString('hex')}`;
    const folder = join(home, content);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      if (before === undefined) await kind.fetch(wanted, folder, run);
      else {
        for (const name of kind.lockFiles) copyFileSync(join(home, name), join(folder, name));
        await kind.restore(wanted, folder, run);
      }
      const pin = kind.pinned(wanted, folder);
      if (before !== undefined && JSON.stringify(before.pin) !== JSON.stringify(pin)) {
        throw new Error('what came is not what was pinned');
      }
      if (before === undefined) for (const name of kind.lockFiles) copyFileSync(join(folder, name), join(home, name));
      writeAtomically(join(home, 'pin.json'), `${JSON.stringify({ pin, content } satisfies Kept)}\n`);
    } catch (error) {
      await removeFolder(folder);
      throw isAmbitError(error) ? error : failed(wanted, reasonIn(error), undefined, error);
    }
    // What a fetch that was cut short has left.
    for (const name of readdirSync(home)) {
      if (name.startsWith('content-') && name !== content) await removeFolder(join(home, name));
    }
    return folder;
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
  if (kept === undefined) return undefined;
  const folder = join(home, kept.content);
  return existsSync(folder) ? folder : undefined;
}

/** What a tool says is for the operator, in the cause; a caller hears its code. */
function reasonIn(error: unknown): string {
  const code = /\bnpm error code (E[A-Z0-9]+)/.exec(String(error))?.[1];
  if (code === 'E404' || /not found in the package registry|404/i.test(String(error)))
    return 'there is no such package';
  if (code === 'ETARGET' || /no version matching/i.test(String(error))) return 'there is no such version';
  return code === undefined ? 'the registry could not be asked, or the package needs to be built' : `npm says ${code}`;
}

function failed({ name, wanted }: PackageCommand, why: string, hint?: string, cause?: unknown): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${wanted === '' ? name : `${name}@${wanted}`}" could not be fetched: ${why}.`,
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}
