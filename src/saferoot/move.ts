import { renameSync, unlinkSync } from 'node:fs';
import { withoutLastSlash } from './components.ts';
import { type Folder, found, placeOf, walked } from './folder.ts';
import { at, type Handle } from './ground.ts';
import { asSafeRootError, SafeRootError, systemCode } from './saferoot-error.ts';
import { takeFileName, takeFolderName } from './take-name.ts';
import { type Place, type Walked, walk } from './walk.ts';

export interface RenameOptions {
  /** What bears the new name is replaced: a file or link by a file, an empty folder by a folder. */
  readonly overwrite?: boolean;
  /** Folders missing on the way to the new name are made. */
  readonly parents?: boolean;
}

/** Moves a file, a folder, or a link itself. A special file is moved without being opened. */
export function rename(folder: Folder, from: string, to: string, options: RenameOptions = {}): void {
  walked(folder, from, { keepLastLink: true }, (source) => {
    const node = found(source);
    const old = placeOf(source);
    const target = walkTo(folder, node.stats.isDirectory() ? withoutLastSlash(to) : to, options);
    try {
      if (options.overwrite) moveOver(node, old, target);
      else moveAside(node, old, target);
    } catch (error) {
      if (systemCode(error) === 'EINVAL') throw new SafeRootError('INTO_ITSELF', { path: from });
      throw asSafeRootError(error, systemCode(error) === 'ENOENT' ? from : to);
    } finally {
      target.release();
    }
  });
}

/** A failure on this way is about the new name, not the old one. */
function walkTo(folder: Folder, to: string, options: RenameOptions): Walked {
  try {
    return walk(folder.ground, folder.root, to, { keepLastLink: true, make: options.parents ? 'parents' : undefined });
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

function isSame(one: Handle, other: Handle): boolean {
  return one.stats.ino === other.stats.ino && one.stats.dev === other.stats.dev;
}
