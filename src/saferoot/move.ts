import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, unlinkSync } from 'node:fs';
import { asPath } from './admit.ts';
import { assertPlace, orUndone } from './assert-place.ts';
import { changedIn, changesSoFar, noteChange } from './changes.ts';
import { componentsOf, withoutLastSlash } from './components.ts';
import { type Kind, kindOf } from './facts.ts';
import { type Folder, found, isSame, placeOf, walked, walkedUntil, walkIn } from './folder.ts';
import { at, type Handle } from './ground.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { type SurveyOptions, surveyed, surveyedAtOnce } from './survey.ts';
import { takeFileName, takeFolderName } from './take-name.ts';
import { type Place, type Walked, walkAlong } from './walk.ts';

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
const maxAtOnce = 2000;

/** Moves a file, a folder, or a link itself. A special file is moved without being opened. */
export async function rename(folder: Folder, from: string, to: string, options: RenameOptions = {}): Promise<Renamed> {
  for (let left = attempts; ; left--) {
    const seen = folder.admit && (await surveyFirst(folder, from, to));
    try {
      const renamed = renameNow(folder, { from, to }, seen, options);
      if (folder.admit !== undefined && renamed.kind === 'folder') await lookAgain(folder, renamed);
      return renamed;
    } catch (error) {
      if (error !== surveyAgain) throw error;
      if (left === 1) throw new SafeRootError('CHANGED', { path: from });
    }
  }
}

/** What a folder was seen to hold, and when. */
interface Seen {
  readonly node: Handle;
  readonly entries: number;
  readonly folders: ReadonlySet<string>;
  readonly since: number;
  /** By the names that led there, and that it will have. */
  readonly survey: SurveyOptions;
}

const surveyAgain = Symbol('it is not as it was seen');

/** There is no pause: what was found holds until it is done. */
function renameNow(
  folder: Folder,
  { from, to }: { readonly from: string; readonly to: string },
  seen: Seen | undefined,
  options: RenameOptions,
): Renamed {
  return walked(folder, from, { deed: 'write', keepLastLink: true }, (source) => {
    const node = found(source);
    const old = placeOf(source);
    const isFolder = node.stats.isDirectory();
    const aim = isFolder ? withoutLastSlash(to) : to;
    if (isFolder) {
      const way = wayTo(folder, aim);
      // Before the folders on the way are made, which would be in it.
      const isWithin = way.length > source.inside.length && source.inside.every((name, i) => name === way[i]);
      if (isWithin) throw new SafeRootError('INTO_ITSELF', { path: from });
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

/** What lies in a folder goes with it: it must be admitted where it is and where it will be. */
function surveyFirst(folder: Folder, from: string, to: string): Promise<Seen | undefined> {
  return walkedUntil(folder, from, { deed: 'write', keepLastLink: true }, async (source) => {
    const node = found(source);
    if (!node.stats.isDirectory()) return undefined;
    const [folders, since] = [new Set<string>(), changesSoFar()];
    const survey = surveyFor(source, wayTo(folder, withoutLastSlash(to)));
    const entries = await surveyed(folder, node, { ...survey, folders });
    return { node, entries, folders, since, survey };
  });
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
