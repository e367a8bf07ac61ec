import { accessSync, constants, type Dir, type Dirent, opendirSync } from 'node:fs';
import { setImmediate as othersHadTheirTurn } from 'node:timers/promises';
import { isAmbitError } from '../../../errors.ts';
import { findRedaction } from '../../../lib/redact/redact-settings.ts';
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import type { PinnedPath } from '../pinned-path.ts';
import { isRepository } from './find-protected-names.ts';

/** The time after which the event loop gets to run. */
const maxBlockMs = 5;

/** The findings below the top of a folder, each as the names of its path. */
interface FolderScan {
  /** Folders that hold a `.git`. */
  readonly repositories: readonly string[][];
  /** Folders whose content makes them a repository, under any name. */
  readonly bare: readonly string[][];
  /** Folders that cannot be read. Their owner can change that later. */
  readonly closed: readonly string[][];
  /** Sockets, also those in repositories. */
  readonly sockets: readonly string[][];
  /** Files of settings that may hold credentials. */
  readonly settings: readonly string[][];
}

/** Limits beyond which a folder is refused: a server can make any number of folders. */
const maxima = { folders: 100_000, names: 2_000_000, levels: 64, guarded: 500, settings: 5000 };
/** The number of names that are read before the event loop may run. */
const namesPerYield = 500;
/** Folders of packages, which are many and not edited. */
const skippedFolders: ReadonlySet<string> = new Set(['node_modules']);

/** Scans a folder for everything that is protected wherever it lies. Throws when it exceeds the limits. */
export async function scanFolder({ descriptor }: PinnedPath): Promise<FolderScan> {
  const found = {
    repositories: [] as string[][],
    bare: [] as string[][],
    closed: [] as string[][],
    sockets: [] as string[][],
  };
  const settings: string[][] = [];
  const yieldToOthers = createYield();
  let named = 0;
  const countName = () => {
    if (++named > maxima.names) throw scanLimitExceeded(`more than ${maxima.names} files and folders`);
  };
  const ahead: string[][] = [[]];
  for (let count = 0; count < ahead.length; count++) {
    if (count > maxima.folders) throw scanLimitExceeded(`more than ${maxima.folders} folders`);
    const names = ahead[count] as string[];
    const entries = await readEntries(`/proc/self/fd/${[descriptor, ...names].join('/')}`, yieldToOthers, countName);
    for (const { name } of (entries ?? []).filter((entry) => entry.isSocket())) found.sockets.push([...names, name]);
    if (entries === undefined) found.closed.push(names);
    else if (names.length > 0 && names.at(-1) !== '.git' && isBareRepository(entries)) found.bare.push(names);
    else if (names.at(-1) !== '.git') {
      for (const entry of entries) {
        if (entry.name === '.git' && names.length > 0) found.repositories.push(names);
        if (entry.isDirectory() && !skippedFolders.has(entry.name)) ahead.push([...names, entry.name]);
        if (entry.isFile() && findRedaction([...names, entry.name])) settings.push([...names, entry.name]);
      }
    }
    if (names.length > maxima.levels) throw scanLimitExceeded(`folders more than ${maxima.levels} levels deep`);
    if (Object.values(found).some(({ length }) => length > maxima.guarded)) {
      throw scanLimitExceeded(`more than ${maxima.guarded} repositories, sockets or folders that cannot be read`);
    }
    if (settings.length > maxima.settings) throw scanLimitExceeded(`more than ${maxima.settings} settings files`);
  }
  return { ...found, settings };
}

/** Undefined for an unreadable folder; empty for a missing one. */
async function readEntries(
  path: string,
  yieldToOthers: () => Promise<void>,
  countName: () => void,
): Promise<Dirent[] | undefined> {
  let folder: Dir | undefined;
  const entries: Dirent[] = [];
  try {
    await yieldToOthers();
    accessSync(path, constants.R_OK | constants.X_OK);
    folder = opendirSync(path, { bufferSize: 64 });
    for (let entry = folder.readSync(), count = 1; entry !== null; entry = folder.readSync(), count++) {
      countName();
      entries.push(entry);
      if (count % namesPerYield === 0) await yieldToOthers();
    }
    return entries;
  } catch (error) {
    if (isAmbitError(error)) throw error;
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ENOTDIR' ? [] : undefined;
  } finally {
    folder?.closeSync();
  }
}

function isBareRepository(entries: readonly Dirent[]): boolean {
  if (!entries.some(({ name }) => name === 'HEAD')) return false;
  const names = new Set(entries.map(({ name }) => name));
  return isRepository([], (name) => names.has(name));
}

function scanLimitExceeded(what: string) {
  return sandboxUnavailable(
    `a writable folder contains ${what} outside of node_modules, so not all protected files in it can be found`,
    'Check who created them. Remove what is not needed, or use a smaller folder for the session.',
  );
}

/** Returns a function that yields to the event loop once enough time has passed. Call it often. */
export function createYield(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < maxBlockMs) return;
    await othersHadTheirTurn();
    began = performance.now();
  };
}
