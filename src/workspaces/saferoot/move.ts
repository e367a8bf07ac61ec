import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, unlinkSync } from 'node:fs';
import { joinNames } from './check-access.ts';
import { assertParentUnmoved, claimFileName, claimFolderName, undoOnError } from './claim-name.ts';
import { type FileKind, kindFromStats } from './file-info.ts';
import { parsePath, stripTrailingSlash } from './path-components.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { readNames } from './read-names.ts';
import { hasChangedSince, recordChange } from './recent-changes.ts';
import {
  isSameFile,
  type RootFolder,
  requireLocation,
  requireNode,
  walkInRoot,
  withPath,
  withPathAsync,
} from './root-folder.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { type SurveyOptions, surveyTree, surveyTreeAtOnce, type TreeSurvey } from './survey-tree.ts';
import { runExclusively } from './time-slice.ts';
import { type EntryLocation, type WalkResult, walkNames } from './walk-path.ts';

export interface RenameOptions {
  /** What bears the new name is replaced: a file or link by a file, an empty folder by a folder. */
  readonly overwrite?: boolean;
  /** Folders missing on the way to the new name are made. */
  readonly parents?: boolean;
}

export interface RenamedEntry {
  readonly from: string;
  readonly to: string;
  readonly kind: FileKind;
  /** How many folders were made on the way to the new name. */
  readonly folders: number;
}

/** A folder with more is not moved where all that is in it must be admitted. */
const maxEntries = 100_000;
/** Somebody may go on working in it: it is looked through so often before that is told. */
const maxAttempts = 5;
/** Few enough to be looked through while everybody waits. */
const maxAtOnce = 500;

/** Moves a file, a folder, or a link itself. A special file is moved without being opened. */
export async function renameEntry(
  folder: RootFolder,
  from: string,
  to: string,
  options: RenameOptions = {},
): Promise<RenamedEntry> {
  const paths = { from, to };
  const work = () => renameSurveyed(folder, paths, options);
  // To look through a folder takes long. Those who come at the same time wait, and find what it is like then.
  return folder.checkAccess !== undefined && needsSurvey(folder, paths, options)
    ? runExclusively(folder, work)
    : work();
}

async function renameSurveyed(folder: RootFolder, paths: RenamePaths, options: RenameOptions): Promise<RenamedEntry> {
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

interface SourceSurvey extends TreeSurvey {
  readonly node: Handle;
  /** By the names that led there, and that it will have. */
  readonly survey: SurveyOptions;
}

const surveyOutdated = Symbol('it is not as it was seen');

/** There is no pause: what was found holds until it is done. */
function renameAtOnce(
  folder: RootFolder,
  { from, to }: RenamePaths,
  survey: SourceSurvey | undefined,
  options: RenameOptions,
): RenamedEntry {
  return withPath(folder, from, { access: 'write', keepLastLink: true }, (source) => {
    const node = requireNode(source);
    const oldLocation = requireLocation(source);
    const isFolder = node.stats.isDirectory();
    const targetPath = isFolder ? stripTrailingSlash(to) : to;
    if (isFolder) {
      const targetNames = findTarget(folder, targetPath);
      // Before the folders on the way are made, which would be in it.
      assertNotIntoItself(source, targetNames, from);
      if (folder.checkAccess !== undefined) assertUnchanged(folder, node, survey, surveyOptions(source, targetNames));
    }
    const target = withErrorPath(targetPath, () =>
      walkInRoot(folder, targetPath, {
        access: 'write',
        keepLastLink: true,
        make: options.parents ? 'parents' : undefined,
      }),
    );
    if (target.location !== undefined) recordChange(target.location.folder);
    try {
      if (options.overwrite) moveOverTarget(node, oldLocation, target);
      else moveToFreeName(node, oldLocation, target);
      // Who replaced something gave no new name.
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

/** What can be refused without a look through the folder is refused here. */
function needsSurvey(folder: RootFolder, paths: RenamePaths, options: RenameOptions): boolean {
  return withPath(folder, paths.from, { access: 'write', keepLastLink: true }, (source) => {
    return findTargetNames(folder, source, paths, options) !== undefined;
  });
}

/** What lies in a folder goes with it: it must be admitted where it is and where it will be. */
function surveySource(
  folder: RootFolder,
  paths: RenamePaths,
  options: RenameOptions,
): Promise<SourceSurvey | undefined> {
  return withPathAsync(folder, paths.from, { access: 'write', keepLastLink: true }, async (source) => {
    const targetNames = findTargetNames(folder, source, paths, options);
    if (targetNames === undefined) return undefined;
    const survey = surveyOptions(source, targetNames);
    const node = requireNode(source);
    return { ...(await surveyTree(folder, node, survey)), node, survey };
  });
}

/** The names that will lead to a folder. Refused where it can be seen at once that it cannot be moved there. */
function findTargetNames(
  folder: RootFolder,
  source: WalkResult,
  { from, to }: RenamePaths,
  { overwrite = false }: RenameOptions,
): readonly string[] | undefined {
  if (!requireNode(source).stats.isDirectory()) return undefined;
  requireLocation(source);
  return withErrorPath(to, () =>
    withPath(folder, stripTrailingSlash(to), { access: 'write', keepLastLink: true, make: 'none' }, (target) => {
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

/** As the system would answer in the end. */
function assertReplaceable(node: Handle, old: Handle, overwrite: boolean): void {
  if (!overwrite) throw new SafeRootError('EXISTS');
  if (isSameFile(node, old)) return;
  if (!old.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  for (const _ of readNames(old)) throw new SafeRootError('NOT_EMPTY');
}

/**
 * Another process may have put something into a folder while it was moved: then it goes back. One that puts something
 * into it later sees that it is elsewhere.
 */
async function verifyMovedFolder(folder: RootFolder, { from, to }: RenamedEntry): Promise<void> {
  const targetNames = parsePath(to);
  const moved = walkNames(folder.fs, folder.root, targetNames, { keepLastLink: true });
  try {
    // Whoever moved it on looked through it as well.
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

/** To its old name or, where somebody took that meanwhile, to one beside it. */
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

/** Looked through right before it is moved; where that would take long, it must be as it was seen before. */
function assertUnchanged(
  folder: RootFolder,
  node: Handle,
  earlier: SourceSurvey | undefined,
  survey: SurveyOptions,
): void {
  const isSamePaths = earlier !== undefined && JSON.stringify(earlier.survey.paths) === JSON.stringify(survey.paths);
  const isUnchanged = isSamePaths && isSameFile(earlier.node, node) && !hasChangedSince(earlier.folders, earlier.since);
  if (isUnchanged && earlier.entries > maxAtOnce) return;
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

/** Where a path will lead once the folders missing on the way are there, without making them. */
function findTarget(folder: RootFolder, to: string): readonly string[] {
  return withErrorPath(to, () =>
    withPath(folder, to, { access: 'write', keepLastLink: true, make: 'none' }, (end) => end.names),
  );
}

/** A failure on this way is about the new name, not the old one. */
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
  // Between two names of one file a rename does nothing at all.
  const isSameFileTwice = target.node !== undefined && isSameFile(target.node, node) && !node.stats.isDirectory();
  if (isSameFileTwice && !(isSameFile(oldLocation.folder, newLocation.folder) && oldLocation.name === newLocation.name))
    unlinkSync(oldName);
}
