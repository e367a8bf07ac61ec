import { lstatSync, symlinkSync } from 'node:fs';
import { assertPlace, orUndone, removeOwn } from './assert-place.ts';
import { noteChange } from './changes.ts';
import { type Folder, placeOf, walked } from './folder.ts';
import type { MkdirOptions } from './make-folder.ts';
import { at } from './platform/ground.ts';
import { SafeRootError } from './saferoot-error.ts';

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
