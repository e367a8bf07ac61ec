import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  type Dirent,
  existsSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  readdirSync,
  readFileSync,
  realpathSync,
} from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { setTimeout as delay, setImmediate as yieldToOthers } from 'node:timers/promises';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { formatSpecifier, type PackageCommand } from './package-command.ts';
import type { FetchedPin, PackageKind } from './package-kind.ts';
import { refuseOffender, showWord } from './read-package-file.ts';

/** An installation that began or ended. Whoever watches may show it to a person. */
export interface InstallEvent {
  /** The package as it was asked for, such as `name@1.2`. */
  readonly package: string;
  readonly state: 'started' | 'installed' | 'failed';
}

export type OnInstall = (event: InstallEvent) => void;

/** Increased when more is checked: older packages are then fetched again, from their lock files. */
const rules = 1;

interface KeptPackage {
  readonly pin: FetchedPin;
  /** The name of its folder. */
  readonly content: string;
  /** The rules it was checked by. */
  readonly rules?: number;
}

interface FetchRequest {
  readonly wanted: PackageCommand;
  readonly kind: Pick<PackageKind, 'lockFiles' | 'isIntact'>;
  /** Settings that make it another installation of the same package. */
  readonly variant?: readonly string[];
  /** The folder of lock files to start from, if the package was not fetched here yet. */
  readonly firstLocks?: string | undefined;
  /** Fetches into an empty folder; `locks` is the folder of the lock files, once the version is pinned. */
  fetch(folder: string, locks: string | undefined): Promise<FetchedPin>;
}

/** Fetched packages in a folder. Each is complete or not there, whenever the process that fetches it is killed. */
export interface PackageStore {
  /** Returns the folder of a package. Fetches it once, however many sessions and processes ask. */
  ensureContent(request: FetchRequest): Promise<string>;
  /** Resolves when no fetch is under way. */
  settled(): Promise<void>;
}

interface StoreOptions {
  readonly folder: string;
  /** The time to wait for a fetch of another process. */
  readonly lockTimeoutMs: number;
  readonly onInstall?: OnInstall | undefined;
}

export function createPackageStore({ folder, lockTimeoutMs, onInstall }: StoreOptions): PackageStore {
  const underWay = new Map<string, Promise<string>>();

  async function fetchOnce(request: FetchRequest, home: string): Promise<string> {
    const found = findKeptContent(home, request);
    if (found !== undefined) return found;
    const report = (state: InstallEvent['state']) => onInstall?.({ package: formatSpecifier(request.wanted), state });
    report('started');
    try {
      makePrivateFolder(dirname(home));
      const content = await withLongLock(
        home,
        lockTimeoutMs,
        async () => findKeptContent(home, request) ?? (await fetchContent(request, home)),
      );
      report('installed');
      return content;
    } catch (error) {
      report('failed');
      throw error;
    }
  }

  return {
    ensureContent(request) {
      const home = packageHome(folder, request.wanted, request.variant);
      let content = underWay.get(home);
      if (content === undefined) {
        content = fetchOnce(request, home).finally(() => underWay.delete(home));
        underWay.set(home, content);
      }
      return content;
    },
    settled: async () => void (await Promise.allSettled(underWay.values())),
  };
}

/** The folder gets its final name before it is filled, since a Python environment cannot be moved. */
async function fetchContent(request: FetchRequest, home: string): Promise<string> {
  const before = readKeptPackage(home);
  const content = `content-${randomBytes(6).toString('hex')}`;
  const folder = join(home, content);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    const pin = await request.fetch(folder, before === undefined ? request.firstLocks : home);
    if (before !== undefined && JSON.stringify(before.pin) !== JSON.stringify(pin)) {
      throw new Error('the downloaded package differs from the approved one');
    }
    if (before === undefined) copyLockFiles(request.kind.lockFiles, folder, home);
    writeAtomically(join(home, 'pin.json'), `${JSON.stringify({ pin, content, rules } satisfies KeptPackage)}\n`);
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
  // Leftovers of an interrupted fetch.
  for (const name of readdirSync(home)) {
    if (name.startsWith('content-') && name !== content) await removeFolder(join(home, name));
  }
  return folder;
}

export function copyLockFiles(names: readonly string[], from: string, to: string): void {
  for (const name of names) copyFileSync(join(from, name), join(to, name));
}

/** Reads the version of a package when it was first fetched; undefined before that. */
export function readKeptPin(folder: string, wanted: PackageCommand): FetchedPin | undefined {
  return readKeptPackage(packageHome(folder, wanted))?.pin;
}

/** The folder of a package. Each specifier has its own: `a` and `a@2` may be different versions. */
export function packageHome(
  folder: string,
  { tool, name, wanted, runtime }: PackageCommand,
  variant: readonly string[] = [],
): string {
  const readable = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  const python = tool === 'uvx' ? runtime : undefined;
  const key = JSON.stringify([tool, name, wanted, python, ...variant]);
  return join(folder, `${tool}-${readable}-${sha256Hex(key).slice(0, 16)}`);
}

function readKeptPackage(home: string): KeptPackage | undefined {
  try {
    return JSON.parse(readFileSync(join(home, 'pin.json'), 'utf8')) as KeptPackage;
  } catch {
    return undefined;
  }
}

function findKeptContent(home: string, { kind }: FetchRequest): string | undefined {
  const kept = readKeptPackage(home);
  if (kept?.rules !== rules) return undefined;
  const folder = join(home, kept.content);
  return existsSync(folder) && (kind.isIntact?.(folder) ?? true) ? folder : undefined;
}

/** The size on the disk of a fetched package, with all its dependencies. */
export interface TreeBounds {
  readonly bytes: number;
  /** Files, folders and links. */
  readonly files: number;
}

export const defaultBounds: TreeBounds = { bytes: 2 * 2 ** 30, files: 200_000 };

/** A package is too large. The message completes the sentence "it has …". */
export class TooLargeError extends Error {}

const minPauseMs = 200;

/** Limits the share of time that checks may take during a fetch. */
const shareOfTime = 4;

const blockBytes = 512;

interface FetchedEntry {
  readonly path: string;
  readonly entry: Dirent;
}

/** The number of entries after which the event loop may run. */
const entriesPerYield = 200;

/**
 * Throws, with the name of the offender, when something in the folder leads out of it, or is neither a file nor a
 * folder. `mayLeave` allows links by their path in the folder.
 */
export async function assertNoEscape(folder: string, mayLeave: (path: string) => boolean = () => false): Promise<void> {
  const root = realpathSync.native(folder);
  for await (const { path, entry } of walkFolder(root)) {
    if (entry.isDirectory() || entry.isFile()) continue;
    const name = relative(root, path);
    if (!entry.isSymbolicLink()) refuseOffender(`"${showWord(name)}", which is neither a file nor a folder`);
    if (!leadsInside(path, root) && !mayLeave(name))
      refuseOffender(`the link "${showWord(name)}", which leads out of it`);
  }
}

function leadsInside(link: string, root: string): boolean {
  try {
    return realpathSync.native(link).startsWith(root + sep);
  } catch {
    // A dangling link may lead somewhere later.
    return false;
  }
}

/**
 * Walks a folder without following links. Entries that disappear meanwhile are left out: a tool may still be at work.
 */
async function* walkFolder(folder: string): AsyncGenerator<FetchedEntry> {
  const open = [folder];
  let seen = 0;
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const entry of readEntries(current)) {
      if (++seen % entriesPerYield === 0) await yieldToOthers();
      const path = join(current, entry.name);
      if (entry.isDirectory()) open.push(path);
      yield { path, entry };
    }
  }
}

/** Reads in pieces: a folder may have more names than fit in memory. */
function* readEntries(folder: string): Generator<Dirent> {
  let names: ReturnType<typeof opendirSync>;
  try {
    names = opendirSync(folder, { bufferSize: entriesPerYield });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    for (let entry = names.readSync(); entry !== null; entry = names.readSync()) yield entry;
  } finally {
    names.closeSync();
  }
}

/** Throws when the folders together exceed the bounds. `times` widens the bounds. */
export async function assertTreeSize(folders: readonly string[], bounds: TreeBounds, times = 1): Promise<void> {
  let [bytes, files] = [0, 0];
  for (const folder of folders) {
    for await (const { path, entry } of walkFolder(folder)) {
      files += 1;
      const facts = entry.isFile() ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
      if (facts !== undefined) bytes += Math.max(facts.size, facts.blocks * blockBytes);
      if (bytes > bounds.bytes * times || files > bounds.files * times) throw new TooLargeError(formatBounds(bounds));
    }
  }
}

/**
 * Checks the size repeatedly during a fetch. Meanwhile the tool has its cache beside the package, so twice as much is
 * allowed. Returns a function that stops the checks and resolves with the error, if any. `onOver` is called once.
 */
export function watchTree(folders: readonly string[], bounds: TreeBounds, onOver: () => void): () => Promise<unknown> {
  const stop = new AbortController();
  const watching = checkRepeatedly().catch((error: unknown) => {
    if (stop.signal.aborted) return undefined;
    onOver();
    return error;
  });
  return () => {
    stop.abort();
    return watching;
  };

  async function checkRepeatedly(): Promise<void> {
    for (let pause = minPauseMs; ; ) {
      await delay(pause, undefined, { signal: stop.signal });
      const began = performance.now();
      await assertTreeSize(folders, bounds, 2);
      pause = Math.max(minPauseMs, (performance.now() - began) * shareOfTime);
    }
  }
}

function formatBounds({ bytes, files }: TreeBounds): string {
  return `more than ${Math.floor(bytes / 2 ** 20)} MiB or ${files} files`;
}
