import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** Writes a temporary file, syncs it and renames it: readers never see half of the content. */
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
    // Some file systems cannot do this; the file itself is complete either way.
  } finally {
    closeSync(descriptor);
  }
}
