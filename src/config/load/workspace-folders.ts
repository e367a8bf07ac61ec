import { lstatSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { findClosest } from '../explain/suggest.ts';
import type { Config } from '../schema/schema.ts';

interface WorkspaceProblem {
  readonly workspace: string;
  /** The reason, with the folder that was probably meant. */
  readonly message: string;
}

/** Makes the folders of workspaces that say `create: true`. Throws if another one is missing: it may be misspelt. */
export function prepareWorkspaceFolders(config: Config): void {
  for (const { path, create } of Object.values(config.workspaces)) {
    if (!create || path === undefined || findState(path) !== 'missing') continue;
    try {
      makeFolders(path);
    } catch {
      // The folder is still missing, which is reported below.
    }
  }
  const problems = findWorkspaceProblems(config);
  if (problems.length === 0) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: problems
      .map(({ workspace, message }) => escapeControls(`workspaces.${workspace}.path: ${message}`))
      .join('\n'),
    hint: 'Correct the path, create the folder, or set "create: true" next to the path to have it created.',
  });
}

export function listWorkspaceFolders(config: Config): string[] {
  return Object.values(config.workspaces).flatMap(({ path }) => (path === undefined ? [] : [path]));
}

export function findWorkspaceProblems(config: Config, willCreate = false): WorkspaceProblem[] {
  return Object.entries(config.workspaces).flatMap(([workspace, { path, create }]) => {
    const state = path === undefined ? 'folder' : findState(path);
    if (path === undefined || state === 'folder') return [];
    if (state === 'missing' && create && willCreate) return [];
    const message =
      state === 'missing'
        ? create
          ? `the folder ${path} cannot be created`
          : `there is no folder ${path}${suggestFolder(path)}`
        : state === 'other'
          ? `${path} is not a folder`
          : `${path} cannot be read (${state})`;
    return [{ workspace, message }];
  });
}

/** Tells what lies at a path; the code of the error if it cannot be seen. */
function findState(path: string): string {
  try {
    return statSync(path).isDirectory() ? 'folder' : 'other';
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    return code === 'ENOENT' ? 'missing' : code === 'ENOTDIR' ? 'other' : code;
  }
}

/** Finds the first missing name on the path, and a folder beside it whose name is close. */
function suggestFolder(path: string): string {
  let missing = path;
  while (dirname(missing) !== missing && findState(dirname(missing)) === 'missing') missing = dirname(missing);
  const above = dirname(missing);
  const meant = findClosest(basename(missing), listFolders(above));
  if (meant === undefined) return '';
  const candidate = join(above, meant, relative(missing, path));
  return findState(candidate) === 'folder' ? `; did you mean ${candidate}?` : '';
}

function listFolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Tells whether a path is a folder. Links are not followed. */
export function isFolder(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Lists the names of the folders in a folder, without links. A folder that cannot be read has none. */
export function listFolderNames(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((each) => each.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}
