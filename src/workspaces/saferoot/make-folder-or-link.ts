import { lstatSync, mkdirSync, symlinkSync } from 'node:fs';
import { asPath } from './check-access.ts';
import { assertPlace, orUndone, removeOwn } from './claim-name.ts';
import { withoutLastSlash } from './path-components.ts';
import { at } from './platform/platform-fs.ts';
import { noteChange } from './recent-changes.ts';
import { type Folder, found, placeOf, walked } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { removeEmpty } from './walk-path.ts';

export interface MkdirOptions {
  /** Folders missing on the way are made, and one that is there already is fine. */
  readonly parents?: boolean;
}

export interface MadeFolder {
  readonly path: string;
  /** How many folders were made: none where it was there already. */
  readonly folders: number;
}

export function mkdir(folder: Folder, path: string, options: MkdirOptions = {}): MadeFolder {
  if (options.parents) {
    return walked(folder, path, { deed: 'write', make: 'all' }, (end) => {
      if (!found(end).stats.isDirectory()) throw new SafeRootError('EXISTS');
      return { path: asPath(end.inside), folders: end.made };
    });
  }
  return walked(folder, withoutLastSlash(path), { deed: 'write', keepLastLink: true }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const place = placeOf(end);
    const made = at(place.folder, place.name);
    noteChange(place.folder);
    mkdirSync(made);
    orUndone(
      () => assertPlace(folder, end, place),
      () => removeEmpty(made),
    );
    return { path: asPath(end.inside), folders: 1 };
  });
}

/** A new link. Nothing that exists is touched. */
export function symlink(folder: Folder, path: string, target: string, options: MkdirOptions = {}): void {
  const make = options.parents ? 'parents' : undefined;
  walked(folder, path, { deed: 'write', keepLastLink: true, make }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const place = placeOf(end);
    const path = at(place.folder, place.name);
    noteChange(place.folder);
    symlinkSync(target, path);
    const own = lstatSync(path);
    orUndone(
      () => assertPlace(folder, end, place),
      () => removeOwn(place, own),
    );
  });
}
