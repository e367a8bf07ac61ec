import { accessSync, constants, type Dir, type Dirent, opendirSync } from 'node:fs';
import { setImmediate as othersHadTheirTurn } from 'node:timers/promises';
import { isAmbitError } from '../../../errors.ts';
import { redactionFor } from '../../../lib/redact/redact-settings.ts';
import { sandboxUnavailable } from '../../common/sandbox-errors.ts';
import type { PinnedPath } from '../pinned-path.ts';
import { isRepository } from './find-protected-names.ts';

/** Others wait no longer than this. */
const maxBlockMs = 5;

/** What is found below the top of a folder, each by the names that lead there. */
export interface FolderScan {
  /** Folders that hold a `.git`. */
  readonly repositories: readonly string[][];
  /** Folders that are a repository by what they hold, whatever they are called. */
  readonly bare: readonly string[][];
  /** Folders that cannot be looked into. Who owns them can change that later. */
  readonly closed: readonly string[][];
  /** Sockets, those in repositories too. */
  readonly sockets: readonly string[][];
  /** Files of settings that may hold credentials. */
  readonly settings: readonly string[][];
}

/** Beyond these a folder is refused: what is not looked at is not guarded, and a server can make folders as it likes. */
const maxima = { folders: 100_000, names: 2_000_000, levels: 64, guarded: 500, settings: 5000 };
/** So many names are read before others may have their turn. */
const namesPerYield = 500;
/** Packages are not worked in, and are many. */
const skippedFolders: ReadonlySet<string> = new Set(['node_modules']);

/** Looks through a folder for what is guarded wherever it lies. Throws where that is more than can be looked at. */
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
        if (entry.isFile() && redactionFor([...names, entry.name])) settings.push([...names, entry.name]);
      }
    }
    if (names.length > maxima.levels) throw scanLimitExceeded(`folders more than ${maxima.levels} levels deep`);
    if (Object.values(found).some(({ length }) => length > maxima.guarded)) {
      throw scanLimitExceeded(`more than ${maxima.guarded} repositories, sockets or folders that cannot be read`);
    }
    if (settings.length > maxima.settings) throw scanLimitExceeded(`more than ${maxima.settings} files of settings`);
  }
  return { ...found, settings };
}

/** Undefined where the folder cannot be looked into; without any where it has gone. */
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
    `a folder that may be written holds ${what} beside node_modules, so what is guarded in it cannot all be found`,
    'Look who made them. Remove what is not needed, or give the session a smaller folder.',
  );
}

/** Returns what lets others have their turn, once this has kept them waiting. To be called often. */
export function createYield(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < maxBlockMs) return;
    await othersHadTheirTurn();
    began = performance.now();
  };
}
