import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, unlinkSync } from 'node:fs';
import { asPath } from './check-access.ts';
import { assertPlace, orUndone, takeFileName, takeFolderName } from './claim-name.ts';
import { type Kind, kindOf } from './file-info.ts';
import { componentsOf, withoutLastSlash } from './path-components.ts';
import { at, type Handle } from './platform/platform-fs.ts';
import { namesIn } from './read-names.ts';
import { changedIn, noteChange } from './recent-changes.ts';
import { type Folder, found, isSame, placeOf, walked, walkedUntil, walkIn } from './root-folder.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { type Surveyed, type SurveyOptions, surveyed, surveyedAtOnce } from './survey-tree.ts';
import { oneAtATime } from './time-slice.ts';
import { type Place, type Walked, walkAlong } from './walk-path.ts';

export interface RenameOptions {
  /** What bears the new name is replaced: a file or link by a file, an empty folder by a folder. */
  readonly overwrite?: boolean;
  /** Folders missing on the way to the new name are made. */
  readonly parents?: boolean;
}

export interface Renamed {
  readonly from: string;
  readonly to: string;
  readonly kind: Kind;
  /** How many folders were made on the way to the new name. */
  readonly folders: number;
}

/** A folder with more is not moved where all that is in it must be admitted. */
const maxEntries = 100_000;
/** Somebody may go on working in it: it is looked through so often before that is told. */
const attempts = 5;
/** Few enough to be looked through while everybody waits. */
const maxAtOnce = 500;

/** Moves a file, a folder, or a link itself. A special file is moved without being opened. */
export async function rename(folder: Folder, from: string, to: string, options: RenameOptions = {}): Promise<Renamed> {
  const names = { from, to };
  const work = () => renameSeen(folder, names, options);
  // To look through a folder takes long. Those who come at the same time wait, and find what it is like then.
  return folder.admit !== undefined && isToBeSurveyed(folder, names, options) ? oneAtATime(folder, work) : work();
}

async function renameSeen(folder: Folder, names: Names, options: RenameOptions): Promise<Renamed> {
  for (let left = attempts; ; left--) {
    const seen = folder.admit && (await surveyFirst(folder, names, options));
    try {
      const renamed = renameNow(folder, names, seen, options);
      if (folder.admit !== undefined && renamed.kind === 'folder') await lookAgain(folder, renamed);
      return renamed;
    } catch (error) {
      if (error !== surveyAgain) throw error;
      if (left === 1) throw new SafeRootError('CHANGED', { path: names.from });
    }
  }
}

interface Seen extends Surveyed {
  readonly node: Handle;
  /** By the names that led there, and that it will have. */
  readonly survey: SurveyOptions;
}

const surveyAgain = Symbol('it is not as it was seen');

/** There is no pause: what was found holds until it is done. */
function renameNow(folder: Folder, { from, to }: Names, seen: Seen | undefined, options: RenameOptions): Renamed {
  return walked(folder, from, { deed: 'write', keepLastLink: true }, (source) => {
    const node = found(source);
    const old = placeOf(source);
    const isFolder = node.stats.isDirectory();
    const aim = isFolder ? withoutLastSlash(to) : to;
    if (isFolder) {
      const way = wayTo(folder, aim);
      // Before the folders on the way are made, which would be in it.
      assertNotWithin(source, way, from);
      if (folder.admit !== undefined) assertSeen(folder, node, seen, surveyFor(source, way));
    }
    const target = about(aim, () =>
      walkIn(folder, aim, { deed: 'write', keepLastLink: true, make: options.parents ? 'parents' : undefined }),
    );
    if (target.place !== undefined) noteChange(target.place.folder);
    try {
      if (options.overwrite) moveOver(node, old, target);
      else moveAside(node, old, target);
      // Who replaced something gave no new name.
      if (target.node === undefined) {
        const fresh = placeOf(target);
        orUndone(
          () => assertPlace(folder, target, fresh),
          () => moveBack(node, fresh, old),
        );
      }
      const kind = kindOf(node.stats);
      return { from: asPath(source.inside), to: asPath(target.inside), kind, folders: target.made };
    } catch (error) {
      if (systemCode(error) === 'EINVAL') throw new SafeRootError('INTO_ITSELF', { path: from });
      throw asSafeRootError(error, systemCode(error) === 'ENOENT' ? from : to);
    } finally {
      target.release();
    }
  });
}

interface Names {
  readonly from: string;
  readonly to: string;
}

/** What can be refused without a look through the folder is refused here. */
function isToBeSurveyed(folder: Folder, names: Names, options: RenameOptions): boolean {
  return walked(folder, names.from, { deed: 'write', keepLastLink: true }, (source) => {
    return newWayOf(folder, source, names, options) !== undefined;
  });
}

/** What lies in a folder goes with it: it must be admitted where it is and where it will be. */
function surveyFirst(folder: Folder, names: Names, options: RenameOptions): Promise<Seen | undefined> {
  return walkedUntil(folder, names.from, { deed: 'write', keepLastLink: true }, async (source) => {
    const way = newWayOf(folder, source, names, options);
    if (way === undefined) return undefined;
    const survey = surveyFor(source, way);
    const node = found(source);
    return { ...(await surveyed(folder, node, survey)), node, survey };
  });
}

/** The names that will lead to a folder. Refused where it can be seen at once that it cannot be moved there. */
function newWayOf(
  folder: Folder,
  source: Walked,
  { from, to }: Names,
  { overwrite = false }: RenameOptions,
): readonly string[] | undefined {
  if (!found(source).stats.isDirectory()) return undefined;
  placeOf(source);
  return about(to, () =>
    walked(folder, withoutLastSlash(to), { deed: 'write', keepLastLink: true, make: 'none' }, (target) => {
      assertNotWithin(source, target.inside, from);
      if (target.node !== undefined) assertReplaceable(found(source), target.node, overwrite);
      return target.inside;
    }),
  );
}

function assertNotWithin({ inside }: Walked, way: readonly string[], from: string): void {
  const isWithin = way.length > inside.length && inside.every((name, i) => name === way[i]);
  if (isWithin) throw new SafeRootError('INTO_ITSELF', { path: from });
}

/** As the system would answer in the end. */
function assertReplaceable(node: Handle, old: Handle, overwrite: boolean): void {
  if (!overwrite) throw new SafeRootError('EXISTS');
  if (isSame(node, old)) return;
  if (!old.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  for (const _ of namesIn(old)) throw new SafeRootError('NOT_EMPTY');
}

/**
 * Another process may have put something into a folder while it was moved: then it goes back. One that puts something
 * into it later sees that it is elsewhere.
 */
async function lookAgain(folder: Folder, { from, to }: Renamed): Promise<void> {
  const way = componentsOf(to);
  const now = walkAlong(folder.ground, folder.root, way, { keepLastLink: true });
  try {
    // Whoever moved it on looked through it as well.
    if (now.node === undefined || !now.node.stats.isDirectory()) return;
    await surveyed(folder, now.node, { ways: [way], maxEntries, oneMount: false });
  } catch (error) {
    const above = walkAlong(folder.ground, folder.root, componentsOf(from).slice(0, -1), { keepLastLink: true });
    try {
      const name = componentsOf(from).at(-1) as string;
      if (above.node === undefined) throw error;
      moveBack(now.node as Handle, placeOf(now), { folder: above.node, name });
    } finally {
      above.release();
    }
    throw error;
  } finally {
    now.release();
  }
}

/** To its old name or, where somebody took that meanwhile, to one beside it. */
function moveBack(node: Handle, fresh: Place, old: Place): void {
  const take = node.stats.isDirectory() ? takeFolderName : takeFileName;
  const now = lstatSync(at(fresh.folder, fresh.name), { throwIfNoEntry: false });
  if (now === undefined || now.ino !== node.stats.ino || now.dev !== node.stats.dev) return;
  noteChange(old.folder);
  try {
    take(at(fresh.folder, fresh.name), at(old.folder, old.name));
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    take(at(fresh.folder, fresh.name), at(old.folder, `${old.name}.${randomBytes(6).toString('hex')}`));
  }
}

/** Looked through right before it is moved; where that would take long, it must be as it was seen before. */
function assertSeen(folder: Folder, node: Handle, seen: Seen | undefined, survey: SurveyOptions): void {
  const sameWays = seen !== undefined && JSON.stringify(seen.survey.ways) === JSON.stringify(survey.ways);
  const isAsSeen = sameWays && isSame(seen.node, node) && !changedIn(seen.folders, seen.since);
  if (isAsSeen && seen.entries > maxAtOnce) return;
  try {
    surveyedAtOnce(folder, node, { ...survey, maxEntries: maxAtOnce });
  } catch (error) {
    throw error instanceof SafeRootError && error.code === 'TOO_MANY_ENTRIES' ? surveyAgain : error;
  }
}

const surveyFor = (source: Walked, target: readonly string[]): SurveyOptions => ({
  ways: [source.inside, target],
  maxEntries,
  oneMount: false,
});

/** Where a path will lead once the folders missing on the way are there, without making them. */
function wayTo(folder: Folder, to: string): readonly string[] {
  return about(to, () => walked(folder, to, { deed: 'write', keepLastLink: true, make: 'none' }, (end) => end.inside));
}

/** A failure on this way is about the new name, not the old one. */
function about<T>(to: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asSafeRootError(error, to);
  }
}

function moveAside(node: Handle, old: Place, target: Walked): void {
  if (target.node !== undefined) throw new SafeRootError('EXISTS');
  const fresh = placeOf(target);
  const take = node.stats.isDirectory() ? takeFolderName : takeFileName;
  take(at(old.folder, old.name), at(fresh.folder, fresh.name));
}

function moveOver(node: Handle, old: Place, target: Walked): void {
  const fresh = placeOf(target);
  const [oldName, newName] = [at(old.folder, old.name), at(fresh.folder, fresh.name)];
  renameSync(oldName, newName);
  // Between two names of one file a rename does nothing at all.
  const twin = target.node !== undefined && isSame(target.node, node) && !node.stats.isDirectory();
  if (twin && !(isSame(old.folder, fresh.folder) && old.name === fresh.name)) unlinkSync(oldName);
}
