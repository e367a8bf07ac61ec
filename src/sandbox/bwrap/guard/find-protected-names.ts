import type { Stats } from 'node:fs';
import { lstatSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { isProtectedName, protectedPaths } from '../../../lib/fs/protected-paths.ts';

export interface ProtectedName {
  readonly name: string;
  /** The names that the write rules are asked about: parts of a repository as if they lay in `.git`. */
  readonly ruleNames: readonly string[];
}

/** The number of folders that are checked. */
const maxFolders = 500;
/** Names that are read at once, and folders that are checked before the event loop continues. */
const namesAtOnce = 1000;
const foldersAtOnce = 50;

/**
 * Finds the protected names at the top of a folder, repositories in the folders there, and the folder itself if it is a
 * repository. A folder may have very many names, so this yields to the event loop.
 */
export async function findProtectedNames(folder: string): Promise<ProtectedName[]> {
  const has = (path: string) => statIfReadable(join(folder, path)) !== undefined;
  try {
    const { guarded, folders } = await listTopLevel(folder);
    const names = [...guarded, ...protectedPaths.filter(has)];
    const found: ProtectedName[] = names.map((name) => ({ name, ruleNames: name.split('/') }));
    found.push(...findRepositoryName([], has));
    for (const [at, name] of folders.entries()) {
      if (at % foldersAtOnce === foldersAtOnce - 1) await yieldToOthers();
      if (has(`${name}/.git`)) found.push({ name: `${name}/.git`, ruleNames: [name, '.git'] });
      found.push(...findRepositoryName([name], has));
    }
    return found;
  } catch {
    return [];
  }
}

async function listTopLevel(folder: string): Promise<{ readonly guarded: string[]; readonly folders: string[] }> {
  const guarded: string[] = [];
  const folders: string[] = [];
  for await (const entry of await opendir(folder, { bufferSize: namesAtOnce })) {
    if (isProtectedName(entry.name)) guarded.push(entry.name);
    if (folders.length < maxFolders && entry.isDirectory() && entry.name !== '.git') folders.push(entry.name);
  }
  return { guarded, folders };
}

function findRepositoryName(above: readonly string[], has: (path: string) => boolean): ProtectedName[] {
  if (!isRepository(above, has)) return [];
  return [{ name: [...above, 'HEAD'].join('/'), ruleNames: [...above, '.git', 'HEAD'] }];
}

/** Whether git takes a folder for a repository, which depends on its content and not on its name. */
export function isRepository(above: readonly string[], has: (path: string) => boolean): boolean {
  const holds = (name: string) => has([...above, name].join('/'));
  return holds('HEAD') && (holds('commondir') || (holds('objects') && holds('refs')));
}

/** Undefined for a missing or unreadable path. */
export function statIfReadable(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
