import { lstatSync, mkdirSync, symlinkSync } from 'node:fs';
import { joinNames } from './check-access.ts';
import { assertParentUnmoved, removeIfOurs, undoOnError } from './claim-name.ts';
import { stripTrailingSlash } from './path-components.ts';
import { pathAt } from './platform/platform-fs.ts';
import { recordChange } from './recent-changes.ts';
import { type RootFolder, requireLocation, requireNode, withPath } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { removeIfEmpty } from './walk-path.ts';

export interface MakeFolderOptions {
  /** Makes missing parents, and accepts a folder that exists already. */
  readonly parents?: boolean;
}

export interface MadeFolder {
  readonly path: string;
  readonly folders: number;
}

export function makeFolder(folder: RootFolder, path: string, options: MakeFolderOptions = {}): MadeFolder {
  if (options.parents) {
    return withPath(folder, path, { access: 'write', make: 'all' }, (end) => {
      if (!requireNode(end).stats.isDirectory()) throw new SafeRootError('EXISTS');
      return { path: joinNames(end.names), folders: end.made };
    });
  }
  return withPath(folder, stripTrailingSlash(path), { access: 'write', keepLastLink: true }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const location = requireLocation(end);
    const made = pathAt(location.folder, location.name);
    recordChange(location.folder);
    mkdirSync(made);
    undoOnError(
      () => assertParentUnmoved(folder, end, location),
      () => removeIfEmpty(made),
    );
    return { path: joinNames(end.names), folders: 1 };
  });
}

/** Makes a new link, and touches nothing that exists. */
export function makeLink(folder: RootFolder, path: string, target: string, options: MakeFolderOptions = {}): void {
  const make = options.parents ? 'parents' : undefined;
  withPath(folder, path, { access: 'write', keepLastLink: true, make }, (end) => {
    if (end.node !== undefined) throw new SafeRootError('EXISTS');
    const location = requireLocation(end);
    const path = pathAt(location.folder, location.name);
    recordChange(location.folder);
    symlinkSync(target, path);
    const own = lstatSync(path);
    undoOnError(
      () => assertParentUnmoved(folder, end, location),
      () => removeIfOurs(location, own),
    );
  });
}
