import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { formatSpecifier, type PackageCommand } from './package-command.ts';
import type { FetchedPin, PackageKind } from './package-kind.ts';

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
