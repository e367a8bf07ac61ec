import { mkdirSync } from 'node:fs';
import { withoutLastSlash } from './components.ts';
import { type Folder, found, placeOf, walked } from './folder.ts';
import { at } from './ground.ts';
import { SafeRootError } from './saferoot-error.ts';

export interface MkdirOptions {
  /** Folders missing on the way are made, and one that is there already is fine. */
  readonly parents?: boolean;
}

export function mkdir(folder: Folder, path: string, options: MkdirOptions = {}): void {
  if (options.parents) {
    walked(folder, path, { make: 'all' }, (end) => {
      if (!found(end).stats.isDirectory()) throw new SafeRootError('EXISTS');
    });
    return;
  }
  walked(folder, withoutLastSlash(path), { keepLastLink: true }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const { folder: parent, name } = placeOf(end);
    mkdirSync(at(parent, name));
  });
}
