import { isAmbitError } from '../../errors.ts';
import { createTurns } from '../../lib/async/turns.ts';
import type { SessionFiles } from '../session-files.ts';
import { largestSearched } from './grep-file.ts';

export interface ReadFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** Reading waits more than it works; more at once would only hold more memory. */
const atOnce = 8;
/** Larger files are read one after the other, whoever searches: many searches at once would hold all memory. */
const mostAhead = 1024 * 1024;
const oneLargeAtATime = createTurns();

/**
 * The contents of files, in their order, read through what keeps a session within its bounds. Those that are gone, closed
 * or too large are passed over.
 */
export async function* readAhead(files: SessionFiles, paths: AsyncIterable<string>): AsyncGenerator<ReadFile> {
  const ahead: { readonly path: string; readonly bytes: Promise<Uint8Array | 'large' | undefined> }[] = [];
  async function* next(): AsyncGenerator<ReadFile> {
    const first = ahead.shift();
    const bytes = await first?.bytes;
    if (first === undefined || bytes === undefined) return;
    const { path } = first;
    if (bytes !== 'large') {
      yield { path, bytes };
      return;
    }
    const over = await oneLargeAtATime();
    try {
      const whole = await read(files, path, largestSearched);
      if (whole instanceof Uint8Array) yield { path, bytes: whole };
    } finally {
      over();
    }
  }
  try {
    for await (const path of paths) {
      const bytes = read(files, path, mostAhead);
      // It is looked at when its turn comes.
      bytes.catch(() => {});
      ahead.push({ path, bytes });
      if (ahead.length >= atOnce) yield* next();
    }
    while (ahead.length > 0) yield* next();
  } finally {
    await Promise.allSettled(ahead.map(({ bytes }) => bytes));
  }
}

async function read(files: SessionFiles, path: string, most: number): Promise<Uint8Array | 'large' | undefined> {
  try {
    const file = await files.open(path);
    try {
      // Under another name by a link that came since it was found: then this is not the file that was meant.
      if (file.facts.path !== path || file.facts.bytes > largestSearched) return undefined;
      if (file.facts.bytes > most) return 'large';
      const bytes = await file.read(0, most + 1);
      return bytes.length > most ? undefined : bytes;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}
