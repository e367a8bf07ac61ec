import { renameSync, unlinkSync } from 'node:fs';
import { asPath } from './admit.ts';
import { changesSoFar, noteChange } from './changes.ts';
import { withoutLastSlash } from './components.ts';
import { type Kind, kindOf } from './facts.ts';
import { type Folder, found, isSame, placeOf, walked, walkedUntil, walkIn } from './folder.ts';
import { at, type Handle } from './ground.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { type SurveyOptions, surveyed, surveyedAtOnce } from './survey.ts';
import { takeFileName, takeFolderName } from './take-name.ts';
import type { Place, Walked } from './walk.ts';

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

/** Moves a file, a folder, or a link itself. A special file is moved without being opened. */
export async function rename(folder: Folder, from: string, to: string, options: RenameOptions = {}): Promise<Renamed> {
  const before = changesSoFar();
  const seen = folder.admit && (await surveyFirst(folder, from, to));
  // From here on there is no pause: what was found holds until it is done.
  return walked(folder, from, { deed: 'write', keepLastLink: true }, (source) => {
    const node = found(source);
    const old = placeOf(source);
    const aim = node.stats.isDirectory() ? withoutLastSlash(to) : to;
    if (folder.admit !== undefined && node.stats.isDirectory()) {
      const unchanged = seen !== undefined && isSame(seen, node) && changesSoFar() === before;
      if (!unchanged) surveyedAtOnce(folder, node, surveyFor(source, wayTo(folder, aim)));
    }
    const target = about(aim, () =>
      walkIn(folder, aim, { deed: 'write', keepLastLink: true, make: options.parents ? 'parents' : undefined }),
    );
    noteChange();
    try {
      if (options.overwrite) moveOver(node, old, target);
      else moveAside(node, old, target);
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
function surveyFirst(folder: Folder, from: string, to: string): Promise<Handle | undefined> {
  return walkedUntil(folder, from, { deed: 'write', keepLastLink: true }, async (source) => {
    const node = found(source);
    if (!node.stats.isDirectory()) return undefined;
    await surveyed(folder, node, surveyFor(source, wayTo(folder, withoutLastSlash(to))));
    return node;
  });
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
