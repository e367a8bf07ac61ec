import { isAmbitError } from '../../errors.ts';
import type { SessionFiles } from '../session-files.ts';
import { largestSearched } from './file-text.ts';

export interface ReadFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** Reading waits more than it works; more at once would only hold more memory. */
const atOnce = 8;

/**
 * The contents of files, in their order, read through what keeps a session within its bounds. Those that are gone, closed
 * or too large are passed over.
 */
export async function* readAhead(files: SessionFiles, paths: AsyncIterable<string>): AsyncGenerator<ReadFile> {
  const ahead: { readonly path: string; readonly bytes: Promise<Uint8Array | undefined> }[] = [];
  const next = async (): Promise<ReadFile | undefined> => {
    const first = ahead.shift();
    const bytes = await first?.bytes;
    return first === undefined || bytes === undefined ? undefined : { path: first.path, bytes };
  };
  try {
    for await (const path of paths) {
      const bytes = read(files, path);
      // It is looked at when its turn comes.
      bytes.catch(() => {});
      ahead.push({ path, bytes });
      const file = ahead.length < atOnce ? undefined : await next();
      if (file !== undefined) yield file;
    }
    while (ahead.length > 0) {
      const file = await next();
      if (file !== undefined) yield file;
    }
  } finally {
    await Promise.allSettled(ahead.map(({ bytes }) => bytes));
  }
}

async function read(files: SessionFiles, path: string): Promise<Uint8Array | undefined> {
  try {
    const file = await files.open(path);
    try {
      // Under another name by a link that came since it was found: then this is not the file that was meant.
      if (file.facts.path !== path || file.facts.bytes > largestSearched) return undefined;
      const bytes = await file.read(0, largestSearched + 1);
      return bytes.length > largestSearched ? undefined : bytes;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}
