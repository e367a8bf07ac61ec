import { randomBytes } from 'node:crypto';
import { constants, linkSync, lstatSync, renameSync, rmSync } from 'node:fs';
import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listNames } from '../../lib/fs/if-present.ts';

/**
 * The content of base files, by hash. Sessions of one workspace start from much the same files, so each content is
 * stored once: every folder has a hard link to what it needs, and content with a single link is unused.
 */
export interface ContentCache {
  /** Adds the content of a file that nobody else can change. */
  add(sha256: string, file: string): Promise<void>;
  read(sha256: string): Promise<Buffer | undefined>;
}

export function createContentCache(common: string, own: string): ContentCache {
  function linkOwn(sha256: string): boolean {
    try {
      linkSync(join(common, sha256), join(own, sha256));
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') return true;
      if (code === 'ENOENT') return false;
      throw error;
    }
  }

  return {
    async add(sha256, file) {
      if (linkOwn(sha256)) return;
      await Promise.all([
        mkdir(common, { recursive: true, mode: 0o700 }),
        mkdir(own, { recursive: true, mode: 0o700 }),
      ]);
      if (linkOwn(sha256)) return;
      const fresh = join(own, `${sha256}.${randomBytes(4).toString('hex')}`);
      await copyFile(file, fresh, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      try {
        linkSync(fresh, join(common, sha256));
      } catch (error) {
        // Another process added it first; this folder uses its own copy.
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      renameSync(fresh, join(own, sha256));
    },

    async read(sha256) {
      try {
        return await readFile(join(own, sha256));
      } catch {
        return undefined;
      }
    },
  };
}

/** Removes content that no folder links to. */
export function sweepContentCache(common: string): void {
  for (const name of listNames(common)) {
    const path = join(common, name);
    if (lstatSync(path, { throwIfNoEntry: false })?.nlink === 1) rmSync(path, { force: true });
  }
}
