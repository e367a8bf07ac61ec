import type { Stats } from 'node:fs';

/**
 * An entry that is held, so that it stays the one that was found. The kernel resolves `path` without following anything
 * that an agent could have put there; it is never shown.
 */
export interface Handle {
  readonly path: string;
  readonly stats: Stats;
  /** The open descriptor behind `path`, where there is one. */
  readonly descriptor: number | undefined;
}

/** The file system calls that a walk by handles needs from a platform. */
export interface PlatformFs {
  readonly platform: 'linux' | 'macos';
  /** The folder itself, named by the operator. */
  openRoot(path: string): Handle;
  /** Opens one component further. Links are not followed, and nothing is opened for reading. */
  step(from: Handle, name: string | Buffer): Handle;
  /**
   * Opens a regular file that `step` found for reading: that file and no other. Synchronous, since the thread pool takes
   * longer than the call.
   */
  reopenToRead(file: Handle): number;
  isSameMount(one: Handle, other: Handle): boolean;
  release(handle: Handle): void;
  /** Releases an entry that has lost its last name, without waiting while the system frees its blocks. */
  releaseRemoved(handle: Handle): void;
}

/** Returns a path for calls that act on a name in a folder and do not follow it. */
export function pathAt(folder: Handle, name: string): string;
export function pathAt(folder: Handle, name: string | Buffer): string | Buffer;
export function pathAt(folder: Handle, name: string | Buffer): string | Buffer {
  return typeof name === 'string' ? `${folder.path}/${name}` : Buffer.concat([Buffer.from(`${folder.path}/`), name]);
}
