import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** A file that is whole at every moment and on the disk when this returns: written beside its place, then moved there. */
export function writeAtomically(file: string, text: string, mode = 0o600): void {
  const beside = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`;
  const descriptor = openSync(beside, 'wx', mode);
  try {
    try {
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
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
    // Some file systems cannot; the file itself is whole either way.
  } finally {
    closeSync(descriptor);
  }
}
