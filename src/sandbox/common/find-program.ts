import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { isWritableBySessions } from '../../config/load/out-of-reach.ts';
import { resolveIfPresent } from '../../lib/fs/if-present.ts';

/** Finds a program on PATH. Relative entries are skipped: they mean another file in each folder. */
export function findProgramOnPath(name: string, searchPath: string | undefined): string | undefined {
  for (const entry of (searchPath ?? '').split(delimiter)) {
    if (!isAbsolute(entry)) continue;
    const path = join(entry, name);
    if (isProgram(path)) return path;
  }
  return undefined;
}

/** Finds a program of the machine that Ambit itself runs, unlike the command of a server. */
export function findTool(name: string, searchPath: string | undefined): string | undefined {
  return findProgramOnPath(name, withoutProjectFolders(searchPath));
}

/**
 * Drops the programs of a project, which npx puts first, and those that a session may have written: an active virtual
 * environment can lie in a workspace.
 */
export function withoutProjectFolders(searchPath: string | undefined): string {
  const folders = (searchPath ?? '').split(delimiter);
  const isOfProject = (folder: string) => /\/node_modules\/\.bin\/*$/.test(folder);
  const isOfSession = (folder: string) => isAbsolute(folder) && isWritableBySessions(folder);
  return folders.filter((folder) => !isOfProject(folder) && !isOfSession(folder)).join(delimiter);
}

/**
 * Drops folders that other sessions may write. A virtual environment in the workspace of the server stays, for it is
 * the operator's choice; the one of another workspace is not for this server.
 */
export function withoutForeignFolders(searchPath: string, isOwn: (realPath: string) => boolean): string {
  const isForeign = (folder: string) => isWritableBySessions(folder) && !isOwn(resolveIfPresent(folder));
  return searchPath
    .split(delimiter)
    .filter((folder) => !isAbsolute(folder) || !isForeign(folder))
    .join(delimiter);
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
