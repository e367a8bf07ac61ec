import { type Dirent, lstatSync, opendirSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { workspaceSlug } from '../../lib/text/name-patterns.ts';
import { findClosest } from '../explain/suggest.ts';
import type { Config } from '../schema/schema.ts';

type Workspaces = Pick<Config, 'workspaces' | 'workspacePatterns'>;

/** A workspace that is configured by its name, or that a pattern makes of a folder. */
export type ConfiguredWorkspace = Config['workspaces'][string] & {
  /** The pattern, if there is one. The folder must not be a link then: anyone who can write beside it could have made it. */
  readonly pattern?: string;
};

/** A folder that matches the path of a pattern and is no workspace. */
interface LeftOutFolder {
  readonly pattern: string;
  readonly folder: string;
  readonly reason: string;
}

interface WorkspaceListing {
  /** The names of the workspaces, sorted. */
  readonly names: readonly string[];
  readonly leftOut: readonly LeftOutFolder[];
  /** The patterns with a folder that was not read, or only in part. */
  readonly incomplete: readonly { readonly pattern: string; readonly reason: string }[];
}

interface WritableFolder {
  /** The description in a message. */
  readonly name: string;
  readonly path: string;
  readonly isOfPattern?: true;
}

/** The workspaces that patterns made, and the folders of those that are configured by their names. */
interface WorkspaceMemory {
  readonly made: Map<string, ConfiguredWorkspace>;
  readonly namesByPath: ReadonlyMap<string, readonly string[]>;
}

/** The number of entries that are read of the folder of a pattern. Others are found by name. */
const maxListedEntries = 1000;
const maxRemembered = 1000;
const memories = new WeakMap<Workspaces, WorkspaceMemory>();

/**
 * Finds a workspace by its name. The folder of a pattern is looked at each time, so that a new one is found without a
 * reload, and one that was removed, or replaced by a link, is not found any more.
 */
export function findWorkspace(config: Workspaces, id: string | undefined): ConfiguredWorkspace | undefined {
  if (id === undefined) return undefined;
  if (Object.hasOwn(config.workspaces, id)) return config.workspaces[id];
  for (const pattern of Object.keys(config.workspacePatterns)) {
    const workspace = matchPattern(config, pattern, id);
    if (workspace?.path !== undefined && isFolder(workspace.path)) return workspace;
  }
  return undefined;
}

/** Finds the workspaces whose folder has this path. Paths are compared as text. */
export function findWorkspacesAt(config: Workspaces, path: string): string[] {
  if (!isAbsolute(path)) return [];
  const folder = resolve(path);
  const named = recall(config).namesByPath.get(folder) ?? [];
  const made = Object.keys(config.workspacePatterns)
    .map((pattern) => pattern.replace('*', () => basename(folder)))
    .filter((id) => !Object.hasOwn(config.workspaces, id) && findWorkspace(config, id)?.path === folder);
  return [...named, ...made];
}

/** Lists the workspaces, and the folders that patterns leave out. */
export function listWorkspaces(config: Workspaces): WorkspaceListing {
  const names = Object.keys(config.workspaces);
  const leftOut: LeftOutFolder[] = [];
  const incomplete: { pattern: string; reason: string }[] = [];
  for (const [pattern, { path = '' }] of Object.entries(config.workspacePatterns)) {
    const { entries, missing } = readEntries(dirname(path));
    if (missing !== undefined) incomplete.push({ pattern, reason: missing });
    for (const entry of entries) {
      const { name: folder } = entry;
      const reason = findReason(config, pattern, entry);
      if (reason === undefined) names.push(pattern.replace('*', () => folder));
      else if (reason !== 'not a folder') leftOut.push({ pattern, folder, reason });
    }
  }
  leftOut.sort((a, b) => (a.folder < b.folder ? -1 : 1));
  return { names: names.sort(), leftOut, incomplete };
}

/** Lists the folders of the workspaces. */
export function listWorkspaceFolders(config: Workspaces): string[] {
  return listWorkspaces(config).names.flatMap((id) => findWorkspace(config, id)?.path ?? []);
}

/**
 * Lists the folders in which sessions may write. For a pattern it is the folder above its workspaces, because any folder
 * in it may become one.
 */
export function listWritableFolders(config: Workspaces): WritableFolder[] {
  const named = Object.entries(config.workspaces).flatMap(([id, { path }]) =>
    path === undefined ? [] : [{ name: `the workspace "${id}"`, path }],
  );
  const above = Object.entries(config.workspacePatterns).map(([pattern, { path = '' }]) => ({
    name: `the folder of the workspaces "${pattern}"`,
    path: dirname(path),
    isOfPattern: true as const,
  }));
  return [...named, ...above];
}

/** Tells whether a pattern could make a workspace of this name. */
export function fitsPattern(config: Pick<Config, 'workspacePatterns'>, id: string): boolean {
  return Object.keys(config.workspacePatterns).some((pattern) => readFolderName(pattern, id) !== undefined);
}

/** Returns the workspace that a pattern makes of a folder, if there is such a folder. The same name gives the same object. */
function matchPattern(config: Workspaces, pattern: string, id: string): ConfiguredWorkspace | undefined {
  const folder = readFolderName(pattern, id);
  if (folder === undefined) return undefined;
  const { made, namesByPath } = recall(config);
  const known = made.get(id);
  if (known !== undefined) return known;
  const settings = config.workspacePatterns[pattern] as Config['workspaces'][string];
  const path = join(dirname(settings.path ?? ''), folder);
  if (namesByPath.has(path)) return undefined;
  const workspace = Object.freeze({ ...settings, path, pattern });
  if (made.size >= maxRemembered) made.clear();
  made.set(id, workspace);
  return workspace;
}

function recall(config: Workspaces): WorkspaceMemory {
  const known = memories.get(config);
  if (known !== undefined) return known;
  const namesByPath = new Map<string, string[]>();
  for (const [id, { path }] of Object.entries(config.workspaces)) {
    if (path === undefined) continue;
    const folder = resolve(path);
    namesByPath.set(folder, [...(namesByPath.get(folder) ?? []), id]);
  }
  const memory = { made: new Map<string, ConfiguredWorkspace>(), namesByPath };
  memories.set(config, memory);
  return memory;
}

/** Returns the part of a name that stands for the folder. A name that begins with a dot is hidden, or leads upwards. */
function readFolderName(pattern: string, id: string): string | undefined {
  if (!workspaceSlug.test(id)) return undefined;
  const [before = '', after = ''] = pattern.split('*');
  if (id.length <= before.length + after.length || !id.startsWith(before) || !id.endsWith(after)) return undefined;
  const folder = id.slice(before.length, id.length - after.length);
  return folder.startsWith('.') ? undefined : folder;
}

/** Says why an entry of the folder is no workspace; undefined if it is one. */
function findReason(config: Workspaces, pattern: string, entry: Dirent): string | undefined {
  const { path = '' } = config.workspacePatterns[pattern] ?? {};
  if (entry.isSymbolicLink()) {
    return leadsToFolder(join(dirname(path), entry.name)) ? 'it is a symbolic link' : 'not a folder';
  }
  if (!entry.isDirectory()) return 'not a folder';
  if (entry.name.startsWith('.')) return 'it is hidden';
  const id = pattern.replace('*', () => entry.name);
  if (!workspaceSlug.test(id)) return 'its name is not a slug';
  if (Object.hasOwn(config.workspaces, id)) return `"${id}" is configured by its name`;
  return matchPattern(config, pattern, id) === undefined ? 'another workspace has this folder' : undefined;
}

function leadsToFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Reads a part of a large folder, so that the time does not depend on who fills it. One that cannot be read has nothing. */
function readEntries(path: string): { readonly entries: readonly Dirent[]; readonly missing: string | undefined } {
  const entries: Dirent[] = [];
  try {
    const folder = opendirSync(path);
    try {
      for (let entry = folder.readSync(); entry !== null; entry = folder.readSync()) {
        if (entries.length === maxListedEntries)
          return { entries, missing: `only ${maxListedEntries} entries were read` };
        entries.push(entry);
      }
    } finally {
      folder.closeSync();
    }
  } catch {
    return { entries, missing: 'its folder cannot be read' };
  }
  return { entries, missing: undefined };
}

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

export function findWorkspaceProblems(config: Config, willCreate = false): WorkspaceProblem[] {
  const patterns = Object.entries(config.workspacePatterns).map(
    ([name, settings]) => [name, { ...settings, path: settings.path && dirname(settings.path) }] as const,
  );
  return [...Object.entries(config.workspaces), ...patterns].flatMap(([workspace, { path, create }]) => {
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
