import { lstatSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fetchedEntries } from './fetched-entries.ts';

/** The most that a fetched package may take on the disk, with all that it needs. */
export interface TreeBounds {
  readonly bytes: number;
  /** Files, folders and links. */
  readonly files: number;
}

export const generousBounds: TreeBounds = { bytes: 2 * 2 ** 30, files: 200_000 };

/** A package is too large. The message completes the sentence "it has …". */
export class TooLargeError extends Error {}

const everyMs = 200;
/** Looking must not become all that Ambit does while it waits for a fetch. */
const shareOfTime = 4;
const blockBytes = 512;

/** Throws when what lies in the folders together is more than it may be. `times` widens the bounds. */
export async function assertWithin(folders: readonly string[], bounds: TreeBounds, times = 1): Promise<void> {
  let [bytes, files] = [0, 0];
  for (const folder of folders) {
    for await (const { path, entry } of fetchedEntries(folder)) {
      files += 1;
      const facts = entry.isFile() ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
      if (facts !== undefined) bytes += Math.max(facts.size, facts.blocks * blockBytes);
      if (bytes > bounds.bytes * times || files > bounds.files * times) throw new TooLargeError(showBounds(bounds));
    }
  }
}

/**
 * Looks again and again while a fetch is under way. Meanwhile the tool has its cache beside the package, so twice as much may be
 * there. Returns what ends the looking and says what was found. `onOver` is called once.
 */
export function watchSize(folders: readonly string[], bounds: TreeBounds, onOver: () => void): () => Promise<unknown> {
  const stop = new AbortController();
  const watching = look().catch((error: unknown) => {
    if (stop.signal.aborted) return undefined;
    onOver();
    return error;
  });
  return () => {
    stop.abort();
    return watching;
  };

  async function look(): Promise<void> {
    for (let pause = everyMs; ; ) {
      await delay(pause, undefined, { signal: stop.signal });
      const began = performance.now();
      await assertWithin(folders, bounds, 2);
      pause = Math.max(everyMs, (performance.now() - began) * shareOfTime);
    }
  }
}

function showBounds({ bytes, files }: TreeBounds): string {
  return `more than ${Math.floor(bytes / 2 ** 20)} MiB or ${files} files`;
}
