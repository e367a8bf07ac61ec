import { closeSync, constants, fsyncSync, openSync, unlinkSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Content, fill } from './content.ts';
import { at, type Handle } from './ground.ts';
import { freshName, isTemporaryName, nameIsFree } from './temporary-name.ts';

export { isTemporaryName };

export interface Writing {
  readonly mode: number;
  readonly maxBytes?: number | undefined;
  readonly sync?: boolean | undefined;
  /** Before the file gets its place: what the old one had. */
  readonly adorn?: (descriptor: number) => void;
}

/**
 * Writes a whole file beside its place, and gives `settle` its name to move it there at once. Whatever fails, the
 * file is gone afterwards.
 */
export async function writeBeside<T>(
  folder: Handle,
  content: Content,
  options: Writing,
  settle: (temporary: string) => T,
): Promise<T> {
  const name = freshName();
  const temporary = at(folder, name);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    const file = await open(temporary, flags, options.mode & 0o777);
    try {
      await fill(file, content, options.maxBytes);
      options.adorn?.(file.fd);
      if (options.sync) await file.sync();
    } finally {
      await file.close();
    }
    const result = settle(temporary);
    if (options.sync) syncFolder(folder);
    return result;
  } finally {
    removeIfThere(temporary);
    nameIsFree(name);
  }
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Moved to its place, or taken away by someone else: either way it is not here.
  }
}

function syncFolder(folder: Handle): void {
  const descriptor = openSync(folder.path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } catch {
    // Some file systems cannot; the file itself is whole either way.
  } finally {
    closeSync(descriptor);
  }
}
