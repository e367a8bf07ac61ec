import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

/**
 * Something found in the folder, held so that it stays what it was found to be. `path` is a way to it that the
 * kernel takes without following anything an agent could have put there; it is never shown.
 */
export interface Handle {
  readonly path: string;
  readonly stats: Stats;
  /** The open descriptor behind `path`, where there is one. */
  readonly descriptor: number | undefined;
}

/** What a platform must give for a walk by handles. */
export interface PlatformFs {
  readonly platform: 'linux' | 'macos';
  /** The folder itself, named by the operator. */
  openRoot(path: string): Handle;
  /** One component further, which is not followed when it is a link and not opened whatever it is. */
  step(from: Handle, name: string | Buffer): Handle;
  /** Opens a regular file that was stepped on: that file and no other. */
  reopen(file: Handle, flags: number): Promise<FileHandle>;
  /** The same for reading, at once: it was just looked at, and a way through other threads takes longer than to open it. */
  reopenToRead(file: Handle): number;
  isSameMount(one: Handle, other: Handle): boolean;
  release(handle: Handle): void;
  /** The same for what has lost its last name: the system then gives back all of its blocks, and nobody waits for that. */
  releaseRemoved(handle: Handle): void;
}

/** A path for calls that act on a name in a folder and do not follow what bears it. */
export function pathAt(folder: Handle, name: string): string;
export function pathAt(folder: Handle, name: string | Buffer): string | Buffer;
export function pathAt(folder: Handle, name: string | Buffer): string | Buffer {
  return typeof name === 'string' ? `${folder.path}/${name}` : Buffer.concat([Buffer.from(`${folder.path}/`), name]);
}
