import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, unlinkSync } from 'node:fs';
import { readNames } from './assert-no-repository.ts';
import { joinNames } from './check-access.ts';
import { assertParentUnmoved, claimFileName, claimFolderName, undoOnError } from './claim-name.ts';
import { type FileKind, kindFromStats } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { hasChangedSince, recordChange } from './recent-changes.ts';
import { type SurveyOptions, surveyTree, surveyTreeAtOnce, type TreeSurvey } from './remove.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { runExclusively } from './time-slice.ts';
import {
  type EntryLocation,
  isSameFile,
  parsePath,
  type RootFolder,
  requireLocation,
  requireNode,
  stripTrailingSlash,
  type WalkResult,
  walkInRoot,
  walkNames,
  withPath,
  withPathAsync,
} from './walk-path.ts';

export interface RenameOptions {
  /** Replaces the target: a file or link by a file, an empty folder by a folder. */
  readonly overwrite?: boolean;
  readonly parents?: boolean;
}

export interface MoveResult {
  readonly from: string;
  readonly to: string;
  readonly kind: FileKind;
  readonly folders: number;
}

/** The largest folder that is moved when access to all its entries must be checked. */
const maxEntries = 100_000;
/** The number of surveys before a folder that keeps changing is given up. */
const maxAttempts = 5;
/** Few enough for a survey without a pause. */
const maxAtOnce = 500;

/** A link in the last component is moved itself. */
const entryItself = { access: 'write', keepLastLink: true } as const;

/** Moves a file, a folder or a link itself. Special files are not opened. */
export async function renameEntry(
  folder: RootFolder,
  from: string,
  to: string,
  options: RenameOptions = {},
): Promise<MoveResult> {
  const paths = { from, to };
  const work = () => renameSurveyed(folder, paths, options);
  // A survey takes long. Concurrent moves wait, and then see the current tree.
  return folder.checkAccess !== undefined && needsSurvey(folder, paths, options)
    ? runExclusively(folder, work)
    : work();
}

async function renameSurveyed(folder: RootFolder, paths: RenamePaths, options: RenameOptions): Promise<MoveResult> {
  for (let left = maxAttempts; ; left--) {
    const survey = folder.checkAccess && (await surveySource(folder, paths, options));
    try {
      const renamed = renameAtOnce(folder, paths, survey, options);
      if (folder.checkAccess !== undefined && renamed.kind === 'folder') await verifyMovedFolder(folder, renamed);
      return renamed;
    } catch (error) {
      if (error !== surveyOutdated) throw error;
      if (left === 1) throw new SafeRootError('CHANGED', { path: paths.from });
    }
  }
}

interface MoveSurvey extends TreeSurvey {
  readonly node: Handle;
  readonly survey: SurveyOptions;
}

const surveyOutdated = Symbol('it is not as it was seen');

/** Moves without a pause, so that the checks still hold when the rename happens. */
function renameAtOnce(
  folder: RootFolder,
  { from, to }: RenamePaths,
  survey: MoveSurvey | undefined,
  options: RenameOptions,
): MoveResult {
  return withPath(folder, from, entryItself, (source) => {
    const node = requireNode(source);
    const oldLocation = requireLocation(source);
    const isFolder = node.stats.isDirectory();
    const targetPath = isFolder ? stripTrailingSlash(to) : to;
    if (isFolder) {
      const targetNames = findTarget(folder, targetPath);
      // Checked before parents are made, since they would lie inside the folder.
      assertNotIntoItself(source, targetNames, from);
      if (folder.checkAccess !== undefined) assertUnchanged(folder, node, survey, surveyOptions(source, targetNames));
    }
    const target = withErrorPath(targetPath, () =>
      walkInRoot(folder, targetPath, { ...entryItself, make: options.parents ? 'parents' : undefined }),
    );
    if (target.location !== undefined) recordChange(target.location.folder);
    try {
      if (options.overwrite) moveOverTarget(node, oldLocation, target);
      else moveToFreeName(node, oldLocation, target);
      // A replaced target is no new name.
      if (target.node === undefined) {
        const newLocation = requireLocation(target);
        undoOnError(
          () => assertParentUnmoved(folder, target, newLocation),
          () => moveBack(node, newLocation, oldLocation),
        );
      }
      const kind = kindFromStats(node.stats);
      return { from: joinNames(source.names), to: joinNames(target.names), kind, folders: target.made };
    } catch (error) {
      if (systemCode(error) === 'EINVAL') throw new SafeRootError('INTO_ITSELF', { path: from });
      throw asSafeRootError(error, systemCode(error) === 'ENOENT' ? from : to);
    } finally {
      target.release();
    }
  });
}

interface RenamePaths {
  readonly from: string;
  readonly to: string;
}

/** Tells whether a survey is needed, and throws what can be refused without one. */
function needsSurvey(folder: RootFolder, paths: RenamePaths, options: RenameOptions): boolean {
  return withPath(folder, paths.from, entryItself, (source) => {
    return findTargetNames(folder, source, paths, options) !== undefined;
  });
}

/** Surveys a folder: access to all entries is needed where they are and where they will be. */
function surveySource(folder: RootFolder, paths: RenamePaths, options: RenameOptions): Promise<MoveSurvey | undefined> {
  return withPathAsync(folder, paths.from, entryItself, async (source) => {
    const targetNames = findTargetNames(folder, source, paths, options);
    if (targetNames === undefined) return undefined;
    const survey = surveyOptions(source, targetNames);
    const node = requireNode(source);
    return { ...(await surveyTree(folder, node, survey)), node, survey };
  });
}

/** Finds the names that will lead to a folder, or throws when it cannot be moved there. */
function findTargetNames(
  folder: RootFolder,
  source: WalkResult,
  { from, to }: RenamePaths,
  { overwrite = false }: RenameOptions,
): readonly string[] | undefined {
  if (!requireNode(source).stats.isDirectory()) return undefined;
  requireLocation(source);
  return withErrorPath(to, () =>
    withPath(folder, stripTrailingSlash(to), { ...entryItself, make: 'none' }, (target) => {
      assertNotIntoItself(source, target.names, from);
      if (target.node !== undefined) assertReplaceable(requireNode(source), target.node, overwrite);
      return target.names;
    }),
  );
}

function assertNotIntoItself({ names }: WalkResult, targetNames: readonly string[], from: string): void {
  const isInside = targetNames.length > names.length && names.every((name, i) => name === targetNames[i]);
  if (isInside) throw new SafeRootError('INTO_ITSELF', { path: from });
}

/** Throws what the system call would answer later. */
function assertReplaceable(node: Handle, old: Handle, overwrite: boolean): void {
  if (!overwrite) throw new SafeRootError('EXISTS');
  if (isSameFile(node, old)) return;
  if (!old.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  for (const _ of readNames(old)) throw new SafeRootError('NOT_EMPTY');
}

/**
 * Surveys a moved folder again, and moves it back when another process has put something into it that is refused. A
 * process that does so later sees the folder at its new place.
 */
async function verifyMovedFolder(folder: RootFolder, { from, to }: MoveResult): Promise<void> {
  const targetNames = parsePath(to);
  const moved = walkNames(folder.fs, folder.root, targetNames, { keepLastLink: true });
  try {
    // A process that moved it on has surveyed it as well.
    if (moved.node === undefined || !moved.node.stats.isDirectory()) return;
    await surveyTree(folder, moved.node, { paths: [targetNames], maxEntries, onSingleMount: false });
  } catch (error) {
    const oldParent = walkNames(folder.fs, folder.root, parsePath(from).slice(0, -1), { keepLastLink: true });
    try {
      const name = parsePath(from).at(-1) as string;
      if (oldParent.node === undefined) throw error;
      moveBack(moved.node as Handle, requireLocation(moved), { folder: oldParent.node, name });
    } finally {
      oldParent.release();
    }
    throw error;
  } finally {
    moved.release();
  }
}

/** Moves an entry back to its old name, or to a name beside it when that is taken. */
function moveBack(node: Handle, from: EntryLocation, to: EntryLocation): void {
  const claim = node.stats.isDirectory() ? claimFolderName : claimFileName;
  const current = lstatSync(pathAt(from.folder, from.name), { throwIfNoEntry: false });
  if (current === undefined || current.ino !== node.stats.ino || current.dev !== node.stats.dev) return;
  recordChange(to.folder);
  try {
    claim(pathAt(from.folder, from.name), pathAt(to.folder, to.name));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    claim(pathAt(from.folder, from.name), pathAt(to.folder, `${to.name}.${randomBytes(6).toString('hex')}`));
  }
}

/** Surveys the folder right before the move. A large folder must instead be unchanged since its last survey. */
function assertUnchanged(folder: RootFolder, node: Handle, last: MoveSurvey | undefined, survey: SurveyOptions): void {
  const isSamePaths = last !== undefined && JSON.stringify(last.survey.paths) === JSON.stringify(survey.paths);
  const isUnchanged = isSamePaths && isSameFile(last.node, node) && !hasChangedSince(last.folders, last.since);
  if (isUnchanged && last.entries > maxAtOnce) return;
  try {
    surveyTreeAtOnce(folder, node, { ...survey, maxEntries: maxAtOnce });
  } catch (error) {
    throw error instanceof SafeRootError && error.code === 'TOO_MANY_ENTRIES' ? surveyOutdated : error;
  }
}

const surveyOptions = (source: WalkResult, target: readonly string[]): SurveyOptions => ({
  paths: [source.names, target],
  maxEntries,
  onSingleMount: false,
});

/** Finds the names a path will have once missing parents exist, without making them. */
function findTarget(folder: RootFolder, to: string): readonly string[] {
  return withErrorPath(to, () => withPath(folder, to, { ...entryItself, make: 'none' }, (end) => end.names));
}

/** Reports errors about the new name instead of the old one. */
function withErrorPath<T>(to: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asSafeRootError(error, to);
  }
}

function moveToFreeName(node: Handle, oldLocation: EntryLocation, target: WalkResult): void {
  if (target.node !== undefined) throw new SafeRootError('EXISTS');
  const newLocation = requireLocation(target);
  const claim = node.stats.isDirectory() ? claimFolderName : claimFileName;
  claim(pathAt(oldLocation.folder, oldLocation.name), pathAt(newLocation.folder, newLocation.name));
}

function moveOverTarget(node: Handle, oldLocation: EntryLocation, target: WalkResult): void {
  const newLocation = requireLocation(target);
  const [oldName, newName] = [
    pathAt(oldLocation.folder, oldLocation.name),
    pathAt(newLocation.folder, newLocation.name),
  ];
  renameSync(oldName, newName);
  // A rename between two names of one file does nothing.
  const isSameFileTwice = target.node !== undefined && isSameFile(target.node, node) && !node.stats.isDirectory();
  if (isSameFileTwice && !(isSameFile(oldLocation.folder, newLocation.folder) && oldLocation.name === newLocation.name))
    unlinkSync(oldName);
}
