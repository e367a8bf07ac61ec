import { type Dirent, opendirSync } from 'node:fs';
import { type FileKind, kindFromStats } from './file-info.ts';
import type { Handle } from './platform/platform-fs.ts';
import type { RootFolder } from './root-folder.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';

export interface RawName {
  readonly name: Buffer;
  readonly kind: FileKind;
}

/** Yields the names in a folder, in the order of the system. */
export function* readNames(handle: Handle): Generator<RawName> {
  if (!handle.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  // Node can read names as bytes; its types do not say so.
  const directory = opendirSync(handle.path, { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
  try {
    for (;;) {
      const entry = directory.readSync() as (Omit<Dirent, 'name'> & { readonly name: unknown }) | null;
      if (entry === null) return;
      yield { name: entry.name as Buffer, kind: kindFromStats(entry) };
    }
  } finally {
    directory.closeSync();
  }
}

export function stepIfPresent(folder: RootFolder, from: Handle, name: string | Buffer): Handle | undefined {
  try {
    return folder.fs.step(from, name);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
