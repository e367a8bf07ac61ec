import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

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

/** Drops the programs of a project. npx puts them first, and the project may be hostile. */
export function withoutProjectFolders(searchPath: string | undefined): string {
  const folders = (searchPath ?? '').split(delimiter);
  return folders.filter((folder) => !/\/node_modules\/\.bin\/*$/.test(folder)).join(delimiter);
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
