import { symlinkSync } from 'node:fs';
import { noteChange } from './changes.ts';
import { type Folder, placeOf, walked } from './folder.ts';
import { at } from './ground.ts';
import type { MkdirOptions } from './make-folder.ts';
import { SafeRootError } from './saferoot-error.ts';

/** A new link. Nothing that exists is touched. */
export function symlink(folder: Folder, path: string, target: string, options: MkdirOptions = {}): void {
  const make = options.parents ? 'parents' : undefined;
  walked(folder, path, { deed: 'write', keepLastLink: true, make }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const { folder: parent, name } = placeOf(end);
    noteChange(parent);
    symlinkSync(target, at(parent, name));
  });
}
