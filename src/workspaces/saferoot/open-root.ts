import { statSync } from 'node:fs';
import type { Admit } from './check-access.ts';
import * as facts from './file-info.ts';
import { type Listing, type ListOptions, list } from './list-folder.ts';
import { type MadeFolder, type MkdirOptions, mkdir, symlink } from './make-folder-or-link.ts';
import { type Renamed, type RenameOptions, rename } from './move.ts';
import { groundFor } from './platform/select-platform-fs.ts';
import { type OpenFile, open, type ReadOptions, read } from './read-file.ts';
import { type RemovedTree, type RemoveTreeOptions, remove, removeTree, type SweepOptions, sweep } from './remove.ts';
import type { Folder } from './root-folder.ts';
import { asSafeRootError, SafeRootError } from './saferoot-error.ts';
import type { Content } from './temporary-file.ts';
import { giveWay } from './time-slice.ts';
import {
  type AppendOptions,
  append,
  type CreateOptions,
  create,
  type MayWriteOptions,
  mayWrite,
  type ReplaceOptions,
  replace,
  type WrittenFile,
} from './write-file.ts';

export interface SafeRootOptions {
  /** Refuses files with several names even for reading and replacing, and does not enter other mounts. */
  readonly strict?: boolean;
  /** Decides by where a path leads. Nothing it does not admit is opened, made, changed, moved or removed. */
  readonly admit?: Admit;
  /** Asked before what lies in a folder is admitted in great numbers: what to wait for first. */
  readonly prepare?: (inside: readonly string[]) => Promise<void> | undefined;
}

/** A folder that paths cannot leave. Paths are relative; errors are `SafeRootError`s and name no path of the host. */
export interface SafeRoot {
  open(path: string): Promise<OpenFile>;
  read(path: string, options?: ReadOptions): Promise<Buffer>;
  create(path: string, content: Content, options?: CreateOptions): Promise<WrittenFile>;
  replace(path: string, content: Content, options?: ReplaceOptions): Promise<WrittenFile>;
  /** Refuses what `create` or `replace` would refuse, folders made on the way, and touches nothing. */
  mayWrite(path: string, options?: MayWriteOptions): Promise<facts.Resolved>;
  append(path: string, content: string | Uint8Array, options?: AppendOptions): Promise<void>;
  mkdir(path: string, options?: MkdirOptions): Promise<MadeFolder>;
  remove(path: string): Promise<RemovedTree>;
  removeTree(path: string, options?: RemoveTreeOptions): Promise<RemovedTree>;
  rename(from: string, to: string, options?: RenameOptions): Promise<Renamed>;
  list(path: string, options?: ListOptions): Promise<Listing>;
  stat(path: string, options?: facts.StatOptions): Promise<facts.Located>;
  readlink(path: string, options?: facts.ReadlinkOptions): Promise<string>;
  /** A new link, of which nothing but its own place is looked at: where it leads is the caller's to judge. */
  symlink(path: string, target: string, options?: MkdirOptions): Promise<void>;
  /** Removes what writes that were killed have left behind, and answers how many files that were. */
  sweep(options?: SweepOptions): Promise<number>;
  /** The descriptor of the folder, where the platform has one: for mounting exactly this folder elsewhere. */
  readonly descriptor: number | undefined;
  /** Whether the path it was opened by leads to something else by now, or to nothing. */
  isElsewhere(): boolean;
  /** Operations under way still finish. Files that were opened stay open. */
  close(): void;
}

/** Most of what is done never waits; whoever does very much of it lets others have their turn in between. */
const doneInATurn = 32;
const longestTurnMs = 4;
let done = 0;
let tookMs = 0;

/** Most of the work is done before the first pause, while all others wait. */
function timed<T>(work: () => T): T {
  const began = performance.now();
  try {
    return work();
  } finally {
    tookMs += performance.now() - began;
  }
}

/**
 * Opens a folder named by the operator. From here on it is this very folder, whatever its name comes to mean. Throws
 * `UNSUPPORTED` where the platform cannot keep the promise.
 */
export function openRoot(path: string, options: SafeRootOptions = {}): SafeRoot {
  const strict = options.strict ?? false;
  const ground = groundFor(process.platform, strict);
  const folder: Folder = { ground, strict, root: rootOf(), admit: options.admit, prepare: options.prepare };
  let underWay = 0;
  let closed = false;

  function rootOf() {
    try {
      return ground.root(path);
    } catch (error) {
      throw asSafeRootError(error, undefined);
    }
  }

  /** A descriptor's number is given to someone else once it is closed, so the root stays while anyone uses it. */
  async function during<T>(about: string, work: () => T | Promise<T>): Promise<T> {
    if (closed) throw new SafeRootError('CLOSED', { path: about });
    underWay++;
    try {
      while (++done > doneInATurn || tookMs > longestTurnMs) {
        await giveWay();
        done = tookMs = 0;
      }
      return await timed(work);
    } catch (error) {
      throw asSafeRootError(error, about);
    } finally {
      underWay--;
      releaseWhenIdle();
    }
  }

  function releaseWhenIdle(): void {
    if (closed && underWay === 0) ground.release(folder.root);
  }

  return {
    open: (path) => during(path, () => open(folder, path)),
    read: (path, options) => during(path, () => read(folder, path, options)),
    create: (path, content, options) => during(path, () => create(folder, path, content, options)),
    replace: (path, content, options) => during(path, () => replace(folder, path, content, options)),
    mayWrite: (path, options) => during(path, () => mayWrite(folder, path, options)),
    append: (path, content, options) => during(path, () => append(folder, path, content, options)),
    mkdir: (path, options) => during(path, () => mkdir(folder, path, options)),
    remove: (path) => during(path, () => remove(folder, path)),
    removeTree: (path, options) => during(path, () => removeTree(folder, path, options)),
    rename: (from, to, options) => during(from, () => rename(folder, from, to, options)),
    list: (path, options) => during(path, () => list(folder, path, options)),
    stat: (path, options) => during(path, () => facts.stat(folder, path, options)),
    sweep: (options) => during('.', () => sweep(folder, options)),
    readlink: (path, options) => during(path, () => facts.readlink(folder, path, options)),
    symlink: (path, target, options) => during(path, () => symlink(folder, path, target, options)),
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
      if (closed) return;
      closed = true;
      releaseWhenIdle();
    },
  };
}
