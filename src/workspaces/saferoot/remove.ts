import { rmdirSync, unlinkSync } from 'node:fs';
import { isRepository, readNames, stepIfPresent } from './assert-no-repository.ts';
import { assertAccess, joinNames } from './check-access.ts';
import { type FileKind, kindFromStats } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { countChanges, folderKey } from './recent-changes.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import { createYielder, runExclusively, type Yielder } from './time-slice.ts';
import { type RootFolder, requireLocation, requireNode, withPath, withPathAsync } from './walk-path.ts';
import { isLeftOver, isTemporaryName } from './write-file.ts';

export interface SweepOptions {
  /** The number of names to look at; 20,000 by default. */
  readonly maxEntries?: number;
}

export interface RemoveResult {
  readonly path: string;
  readonly kind: FileKind;
  readonly entries: number;
}

/** Removes a file, a link itself, an empty folder, or a special file without opening it. */
export function removeEntry(folder: RootFolder, path: string): RemoveResult {
  return withPath(folder, path, { access: 'write', keepLastLink: true, removesLast: true }, (end) => {
    const node = requireNode(end);
    const location = requireLocation(end);
    removeName(node, pathAt(location.folder, location.name));
    return { path: joinNames(end.names), kind: kindFromStats(node.stats), entries: 1 };
  });
}

export interface RemoveTreeOptions {
  /** Refuses larger trees before anything is removed; 100,000 by default. */
  readonly maxEntries?: number;
}

/**
 * Removes a folder with all its entries. Links are removed, not followed; other mounts are not entered. A tree that is
 * too large, leads elsewhere or holds an entry that may not be removed stays whole.
 */
export async function removeTree(
  folder: RootFolder,
  path: string,
  options: RemoveTreeOptions = {},
): Promise<RemoveResult> {
  const { maxEntries = 100_000 } = options;
  return withPathAsync(folder, path, { access: 'write', keepLastLink: true, removesLast: true }, async (end) => {
    const node = requireNode(end);
    const location = requireLocation(end);
    if (node.stats.isDirectory()) {
      const survey = { paths: [end.names], maxEntries, onSingleMount: true };
      await runExclusively(folder, () => surveyTree(folder, node, survey));
    }
    const progress = { count: 0, yieldIfDue: createYielder() };
    await removeRecursively(folder, node, pathAt(location.folder, location.name), end.names, progress);
    return { path: joinNames(end.names), kind: kindFromStats(node.stats), entries: progress.count };
  });
}

interface Progress {
  count: number;
  readonly yieldIfDue: Yielder;
}

async function removeRecursively(
  folder: RootFolder,
  node: Handle,
  name: string | Buffer,
  names: readonly string[],
  progress: Progress,
  depth = 1,
): Promise<void> {
  if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
  for (let left = 3; ; left--) {
    try {
      if (node.stats.isDirectory()) await emptyFolder(folder, node, names, progress, depth);
      removeName(node, name);
      progress.count++;
      const pause = progress.yieldIfDue();
      if (pause !== undefined) await pause;
      return;
    } catch (error) {
      // Another process wrote into it, or the system skipped an entry while others were removed.
      if (systemCode(error) !== 'ENOTEMPTY' || left === 0) throw error;
    }
  }
}

async function emptyFolder(
  folder: RootFolder,
  node: Handle,
  names: readonly string[],
  progress: Progress,
  depth: number,
): Promise<void> {
  // If the rules are not known in time, each entry is refused.
  await folder.prepare?.(names);
  for (const { name } of readNames(node)) {
    const child = stepIfPresent(folder, node, name);
    if (child === undefined) continue;
    try {
      const text = name.toString();
      const childNames = [...names, text];
      // Checked again, since the entry may be newer than the survey.
      if (!isTemporaryName(text)) assertAccess(folder.checkAccess, 'write', childNames, kindFromStats(child.stats));
      await removeRecursively(folder, child, pathAt(node, name), childNames, progress, depth + 1);
    } finally {
      folder.fs.release(child);
    }
  }
}

function removeName(node: Handle, name: string | Buffer): void {
  if (node.stats.isDirectory()) rmdirSync(name);
  else unlinkSync(name);
}

/** Removes what killed writes left in the tree, skipping folders that may not be written to. */
export async function sweepLeftovers(folder: RootFolder, { maxEntries = 20_000 }: SweepOptions = {}): Promise<number> {
  const yieldIfDue = createYielder();
  let lookedAt = 0;
  let removed = 0;

  async function sweepFolder(node: Handle, names: readonly string[]): Promise<void> {
    if (names.length > maxTreeDepth) return;
    for (const { name, kind } of readNames(node)) {
      if (++lookedAt > maxEntries) return;
      const pause = yieldIfDue();
      if (pause !== undefined) await pause;
      const text = name.toString();
      if (kind === 'file' && isTemporaryName(text)) removed += removeLeftOver(folder, node, text);
      if (kind !== 'folder' || folder.checkAccess?.('write', [...names, text], kind) !== undefined) continue;
      const child = stepIfPresent(folder, node, name);
      if (child === undefined) continue;
      try {
        if (child.stats.isDirectory()) await sweepFolder(child, [...names, text]);
      } catch (error) {
        // A folder that cannot be read is skipped.
        if (systemCode(error) === undefined) throw error;
      } finally {
        folder.fs.release(child);
      }
    }
  }

  await sweepFolder(folder.root, []);
  return removed;
}

function removeLeftOver(folder: RootFolder, node: Handle, name: string): number {
  const file = stepIfPresent(folder, node, name);
  if (file === undefined) return 0;
  folder.fs.release(file);
  if (!file.stats.isFile() || !isLeftOver(name, file.stats.mtimeMs)) return 0;
  try {
    unlinkSync(pathAt(node, name));
    return 1;
  } catch {
    return 0;
  }
}

export interface SurveyOptions {
  /** The paths of the tree, before and after the operation. Access to every entry is checked by each. */
  readonly paths: readonly (readonly string[])[];
  readonly maxEntries: number;
  readonly onSingleMount: boolean;
}

/** The result of a survey, with the time it began. */
export interface TreeSurvey {
  readonly entries: number;
  readonly folders: ReadonlySet<string>;
  readonly since: number;
}

const maxTreeDepth = 128;

/** Checks access to a whole tree before anything is done to it, yielding to others. */
export async function surveyTree(folder: RootFolder, node: Handle, options: SurveyOptions): Promise<TreeSurvey> {
  const [folders, since] = [new Set<string>(), countChanges()];
  const yieldIfDue = createYielder();
  let entries = 0;
  for (const step of listSurveySteps(folder, node, options, folders)) {
    if (step === 'entry') entries++;
    else await step;
    const pause = yieldIfDue();
    if (pause !== undefined) await pause;
  }
  return { entries, folders, since };
}

/** Surveys without a pause, so that nothing in this process can change meanwhile. */
export function surveyTreeAtOnce(folder: RootFolder, node: Handle, options: SurveyOptions): void {
  for (const _ of listSurveySteps(folder, node, options));
}

/** An entry that was found, or a promise to wait for. */
type SurveyStep = 'entry' | Promise<void>;

function* listSurveySteps(
  folder: RootFolder,
  tree: Handle,
  { paths, maxEntries, onSingleMount }: SurveyOptions,
  folders?: Set<string>,
): Generator<SurveyStep> {
  let entriesLeft = maxEntries;
  yield* surveyFolder(tree, paths, 1);

  function* surveyFolder(node: Handle, paths: readonly (readonly string[])[], depth: number): Generator<SurveyStep> {
    if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
    folders?.add(folderKey(node));
    for (const path of paths) {
      const ready = folder.prepare?.(path);
      if (ready !== undefined) yield ready;
    }
    if (isRepository(node))
      for (const path of paths) assertAccess(folder.checkAccess, 'write', [...path, '.git'], 'folder');
    for (const { name, kind } of readNames(node)) {
      if (--entriesLeft < 0) throw new SafeRootError('TOO_MANY_ENTRIES');
      yield 'entry';
      const text = name.toString();
      const childPaths = paths.map((path) => [...path, text]);
      // Temporary files of running or killed writes go along.
      if (!isTemporaryName(text)) for (const way of childPaths) assertAccess(folder.checkAccess, 'write', way, kind);
      // Some file systems do not return the kind with the name.
      if (kind !== 'folder' && kind !== 'special') continue;
      const child = stepIfPresent(folder, node, name);
      if (child === undefined) continue;
      try {
        if (!child.stats.isDirectory()) continue;
        if (onSingleMount && !folder.fs.isSameMount(child, node)) {
          throw new SafeRootError('OTHER_DEVICE', { what: 'contains another mount' });
        }
        yield* surveyFolder(child, childPaths, depth + 1);
      } finally {
        folder.fs.release(child);
      }
    }
  }
}
