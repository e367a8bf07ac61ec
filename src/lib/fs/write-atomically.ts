import { randomBytes } from 'node:crypto';
import { closeSync, fchmodSync, fchownSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** The owner of a file. Only root can give a file away. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Writes a temporary file, syncs it and renames it: readers never see half of the content. With an owner the mode does
 * not depend on the umask. Owner and mode are set before the file has its name: afterwards another user of the folder
 * could put a link in its place.
 */
export function writeAtomically(file: string, text: string, mode = 0o600, owner?: FileOwner): void {
  const beside = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`;
  const descriptor = openSync(beside, 'wx', owner === undefined ? mode : 0o600);
  try {
    try {
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
      if (owner !== undefined) {
        if (process.getuid?.() === 0) fchownSync(descriptor, owner.uid, owner.gid);
        fchmodSync(descriptor, mode);
      }
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(beside, file);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
  syncFolder(dirname(file));
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } catch {
    // Some file systems cannot do this; the file itself is complete either way.
  } finally {
    closeSync(descriptor);
  }
}
