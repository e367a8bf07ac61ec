import { lstatSync, mkdirSync, statSync, symlinkSync } from 'node:fs';
import { type CheckAccess, joinNames } from './check-access.ts';
import { assertParentUnmoved, removeIfOurs, undoOnError } from './claim-name.ts';
import * as facts from './file-info.ts';
import { type MoveResult, type RenameOptions, renameEntry } from './move.ts';
import { pathAt } from './platform/platform-fs.ts';
import { selectPlatformFs } from './platform/select-platform-fs.ts';
import {
  type FolderListing,
  type FolderListOptions,
  listFolder,
  type OpenRootFile,
  openFile,
  type ReadFileOptions,
  readFile,
} from './read.ts';
import { recordChange } from './recent-changes.ts';
import {
  type RemoveResult,
  type RemoveTreeOptions,
  removeEntry,
  removeTree,
  type SweepOptions,
  sweepLeftovers,
} from './remove.ts';
import { asSafeRootError, SafeRootError } from './saferoot-error.ts';
import { yieldToOthers } from './time-slice.ts';
import {
  type RootFolder,
  removeIfEmpty,
  requireLocation,
  requireNode,
  stripTrailingSlash,
  withPath,
} from './walk-path.ts';
import {
  type CreateOptions,
  checkWritable,
  createFile,
  type FileContent,
  type MayWriteOptions,
  type ReplaceOptions,
  replaceFile,
  type WrittenFile,
} from './write-file.ts';

export interface SafeRootOptions {
  /** Refuses files with several names even for reading and replacing, and does not enter other mounts. */
  readonly strict?: boolean;
  /** Decides by the path that was reached. An entry it refuses is not opened, made, changed, moved or removed. */
  readonly checkAccess?: CheckAccess;
  /** Called before many entries of a folder are checked; returns what to wait for. */
  readonly prepare?: (names: readonly string[]) => Promise<void> | undefined;
}

/** A folder that paths cannot leave. Paths are relative; errors are `SafeRootError`s and name no path of the host. */
export interface SafeRoot {
  open(path: string): Promise<OpenRootFile>;
  read(path: string, options?: ReadFileOptions): Promise<Buffer>;
  create(path: string, content: FileContent, options?: CreateOptions): Promise<WrittenFile>;
  replace(path: string, content: FileContent, options?: ReplaceOptions): Promise<WrittenFile>;
  /** Refuses what `create` or `replace` would refuse with missing parents made, and changes nothing. */
  mayWrite(path: string, options?: MayWriteOptions): Promise<facts.ResolvedPath>;
  mkdir(path: string, options?: MakeFolderOptions): Promise<MadeFolder>;
  remove(path: string): Promise<RemoveResult>;
  removeTree(path: string, options?: RemoveTreeOptions): Promise<RemoveResult>;
  rename(from: string, to: string, options?: RenameOptions): Promise<MoveResult>;
  list(path: string, options?: FolderListOptions): Promise<FolderListing>;
  stat(path: string, options?: facts.StatOptions): Promise<facts.LocatedFile>;
  readlink(path: string, options?: facts.ReadlinkOptions): Promise<string>;
  /** Makes a link. Only its own location is checked; the caller judges the target. */
  symlink(path: string, target: string, options?: MakeFolderOptions): Promise<void>;
  /** Removes files that killed writes left behind, and returns their number. */
  sweep(options?: SweepOptions): Promise<number>;
  /** The descriptor of the folder, on platforms that have one, for mounting exactly this folder. */
  readonly descriptor: number | undefined;
  /** Tells whether the path it was opened by now leads to something else or to nothing. */
  isElsewhere(): boolean;
  /** Running operations still finish. Opened files stay open. */
  close(): void;
}

/** Most operations never wait, so a caller with very many of them yields now and then. */
const maxPerTick = 32;
const maxTickMs = 4;
let doneThisTick = 0;
let workedMs = 0;

/** Measures the synchronous part, during which everything else waits. */
function measureTime<T>(work: () => T): T {
  const began = performance.now();
  try {
    return work();
  } finally {
    workedMs += performance.now() - began;
  }
}

/**
 * Opens a folder named by the operator. It stays this very folder, even if its path later leads elsewhere. Throws
 * `UNSUPPORTED` where the platform cannot guarantee that.
 */
export function openRoot(path: string, options: SafeRootOptions = {}): SafeRoot {
  const strict = options.strict ?? false;
  const fs = selectPlatformFs(process.platform, strict);
  const folder: RootFolder = {
    fs,
    strict,
    root: openFolder(),
    checkAccess: options.checkAccess,
    prepare: options.prepare,
  };
  let active = 0;
  let isClosed = false;

  function openFolder() {
    try {
      return fs.openRoot(path);
    } catch (error) {
      throw asSafeRootError(error, undefined);
    }
  }

  /** Keeps the root open while operations run: the number of a closed descriptor is reused. */
  async function runOperation<T>(about: string, work: () => T | Promise<T>): Promise<T> {
    if (isClosed) throw new SafeRootError('CLOSED', { path: about });
    active++;
    try {
      while (++doneThisTick > maxPerTick || workedMs > maxTickMs) {
        await yieldToOthers();
        doneThisTick = workedMs = 0;
      }
      return await measureTime(work);
    } catch (error) {
      throw asSafeRootError(error, about);
    } finally {
      active--;
      releaseWhenIdle();
    }
  }

  function releaseWhenIdle(): void {
    if (isClosed && active === 0) fs.release(folder.root);
  }

  return {
    open: (path) => runOperation(path, () => openFile(folder, path)),
    read: (path, options) => runOperation(path, () => readFile(folder, path, options)),
    create: (path, content, options) => runOperation(path, () => createFile(folder, path, content, options)),
    replace: (path, content, options) => runOperation(path, () => replaceFile(folder, path, content, options)),
    mayWrite: (path, options) => runOperation(path, () => checkWritable(folder, path, options)),
    mkdir: (path, options) => runOperation(path, () => makeFolder(folder, path, options)),
    remove: (path) => runOperation(path, () => removeEntry(folder, path)),
    removeTree: (path, options) => runOperation(path, () => removeTree(folder, path, options)),
    rename: (from, to, options) => runOperation(from, () => renameEntry(folder, from, to, options)),
    list: (path, options) => runOperation(path, () => listFolder(folder, path, options)),
    stat: (path, options) => runOperation(path, () => facts.statFile(folder, path, options)),
    sweep: (options) => runOperation('.', () => sweepLeftovers(folder, options)),
    readlink: (path, options) => runOperation(path, () => facts.readLinkTarget(folder, path, options)),
    symlink: (path, target, options) => runOperation(path, () => makeLink(folder, path, target, options)),
    descriptor: folder.root.descriptor,
    isElsewhere() {
      const { ino, dev } = folder.root.stats;
      try {
        const now = statSync(path);
        return now.ino !== ino || now.dev !== dev;
      } catch {
        return true;
      }
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      releaseWhenIdle();
    },
  };
}

interface MakeFolderOptions {
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
function makeLink(folder: RootFolder, path: string, target: string, options: MakeFolderOptions = {}): void {
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
