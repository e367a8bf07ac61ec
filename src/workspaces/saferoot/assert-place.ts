import { lstatSync, type Stats, unlinkSync } from 'node:fs';
import { type Folder, isSame } from './folder.ts';
import { at } from './platform/ground.ts';
import { assertNoRepository } from './repository-trap.ts';
import { SafeRootError } from './saferoot-error.ts';
import { type Place, type Walked, walkAlong } from './walk.ts';

/**
 * What was admitted is a way of names. The folder at its end may have been moved to where its file would not be admitted:
 * it must still be there. Before a new name is given, that spares the work. After it, it is what counts: another process
 * may have come in between, and whoever comes last sees what both did.
 */
export function assertPlace(folder: Folder, end: Walked, place: Place): void {
  if (folder.admit === undefined) return;
  const above = end.inside.slice(0, -1);
  const now = walkAlong(folder.ground, folder.root, above, { keepLastLink: true });
  now.release();
  if (now.node === undefined || !isSame(now.node, place.folder)) throw new SafeRootError('CHANGED');
  // The other parts of a repository may have come meanwhile.
  assertNoRepository(folder.admit, place.folder, above, place.name);
}

/** Looks at what was done, and undoes it where a rule is broken by it now. */
export function orUndone(look: () => void, undo: () => void): void {
  try {
    look();
  } catch (error) {
    undo();
    throw error;
  }
}

/** Takes a new name away, unless it is somebody else's by now. */
export function removeOwn({ folder, name }: Place, own: Stats): void {
  const path = at(folder, name);
  const now = lstatSync(path, { throwIfNoEntry: false });
  if (now !== undefined && now.ino === own.ino && now.dev === own.dev) unlinkSync(path);
}
