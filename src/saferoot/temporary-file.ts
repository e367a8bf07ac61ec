import { randomBytes } from 'node:crypto';
import { closeSync, constants, fsyncSync, openSync, unlinkSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { type Content, fill } from './content.ts';
import { at, type Handle } from './ground.ts';

const pattern = /^\.ambit-[0-9a-f]{16}\.tmp$/;

/** True for a name a write in progress uses, or one that was killed has left behind. */
export function isTemporaryName(name: string): boolean {
  return pattern.test(name);
}

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
export async function writeBeside(
  folder: Handle,
  content: Content,
  options: Writing,
  settle: (temporary: string) => void,
): Promise<void> {
  const temporary = at(folder, `.ambit-${randomBytes(8).toString('hex')}.tmp`);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await open(temporary, flags, options.mode & 0o777);
  try {
    try {
      await fill(file, content, options.maxBytes);
      options.adorn?.(file.fd);
      if (options.sync) await file.sync();
    } finally {
      await file.close();
    }
    settle(temporary);
  } finally {
    removeIfThere(temporary);
  }
  if (options.sync) syncFolder(folder);
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
