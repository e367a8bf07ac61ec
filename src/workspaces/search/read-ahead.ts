import { isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import type { SessionFiles } from '../session-files.ts';
import { maxSearchedBytes } from './grep-file.ts';

export interface FileBytes {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** Reading mostly waits; more at once would only use more memory. */
const maxParallel = 8;
/** Larger files are read one at a time over all searches, to bound memory. */
const maxAheadBytes = 1024 * 1024;
const acquireLarge = createMutex();

/** Reads files in order, through the files of the session. Missing, protected and too large files are skipped. */
export async function* readAhead(files: SessionFiles, paths: AsyncIterable<string>): AsyncGenerator<FileBytes> {
  const pending: { readonly path: string; readonly bytes: Promise<Uint8Array | 'large' | undefined> }[] = [];
  async function* readNext(): AsyncGenerator<FileBytes> {
    const first = pending.shift();
    const bytes = await first?.bytes;
    if (first === undefined || bytes === undefined) return;
    const { path } = first;
    if (bytes !== 'large') {
      yield { path, bytes };
      return;
    }
    const release = await acquireLarge();
    try {
      const whole = await readFile(files, path, maxSearchedBytes);
      if (whole instanceof Uint8Array) yield { path, bytes: whole };
    } finally {
      release();
    }
  }
  try {
    for await (const path of paths) {
      const bytes = readFile(files, path, maxAheadBytes);
      // An error is thrown later, when the file is next.
      bytes.catch(() => {});
      pending.push({ path, bytes });
      if (pending.length >= maxParallel) yield* readNext();
    }
    while (pending.length > 0) yield* readNext();
  } finally {
    await Promise.allSettled(pending.map(({ bytes }) => bytes));
  }
}

async function readFile(
  files: SessionFiles,
  path: string,
  maxBytes: number,
): Promise<Uint8Array | 'large' | undefined> {
  try {
    const file = await files.open(path);
    try {
      // The path has become a link to another file.
      if (file.facts.path !== path || file.facts.bytes > maxSearchedBytes) return undefined;
      if (file.facts.bytes > maxBytes) return 'large';
      const bytes = await file.read(0, maxBytes + 1);
      return bytes.length > maxBytes ? undefined : bytes;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}
