import type { Stats } from 'node:fs';
import { lstatSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as giveWay } from 'node:timers/promises';
import { guardedPaths, isGuardedName } from '../../../lib/fs/guarded-names.ts';

/** Something in a folder that is guarded. */
export interface GuardedName {
  readonly name: string;
  /** The names by which it is judged whether it may be written: the parts of a repository as if they lay in `.git`. */
  readonly judged: readonly string[];
}

/** More folders than this are not looked into. */
const mostFolders = 500;
/** Names that are read at once, and folders that are looked into before others get their turn. */
const namesAtOnce = 1000;
const foldersAtOnce = 50;

/**
 * Guarded names at the top of a folder, repositories in the folders there, and the folder as one, as they are now. A
 * folder may have very many names: others get their turn meanwhile.
 */
export async function guardedIn(folder: string): Promise<GuardedName[]> {
  const has = (path: string) => lookAt(join(folder, path)) !== undefined;
  try {
    const { guarded, folders } = await listTop(folder);
    const names = [...guarded, ...guardedPaths.filter(has)];
    const found: GuardedName[] = names.map((name) => ({ name, judged: name.split('/') }));
    found.push(...repositoryAt([], has));
    for (const [at, name] of folders.entries()) {
      if (at % foldersAtOnce === foldersAtOnce - 1) await giveWay();
      if (has(`${name}/.git`)) found.push({ name: `${name}/.git`, judged: [name, '.git'] });
      found.push(...repositoryAt([name], has));
    }
    return found;
  } catch {
    return [];
  }
}

async function listTop(folder: string): Promise<{ readonly guarded: string[]; readonly folders: string[] }> {
  const guarded: string[] = [];
  const folders: string[] = [];
  for await (const entry of await opendir(folder, { bufferSize: namesAtOnce })) {
    if (isGuardedName(entry.name)) guarded.push(entry.name);
    if (folders.length < mostFolders && entry.isDirectory() && entry.name !== '.git') folders.push(entry.name);
  }
  return { guarded, folders };
}

function repositoryAt(above: readonly string[], has: (path: string) => boolean): GuardedName[] {
  if (!isRepository(above, has)) return [];
  return [{ name: [...above, 'HEAD'].join('/'), judged: [...above, '.git', 'HEAD'] }];
}

/** Git takes a folder for a repository by what it holds, whatever it is called. */
export function isRepository(above: readonly string[], has: (path: string) => boolean): boolean {
  const holds = (name: string) => has([...above, name].join('/'));
  return holds('HEAD') && (holds('commondir') || (holds('objects') && holds('refs')));
}

/** Undefined where nothing is, and where nobody can look. */
export function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
