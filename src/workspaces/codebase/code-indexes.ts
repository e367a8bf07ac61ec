import { createConcurrencyLimit } from '../../lib/async/mutex.ts';
import type { Log } from '../../observability/log/log.ts';
import type { FilePlace } from '../session-files.ts';
import type { EmbeddingProvider } from './embeddings.ts';
import { createFolderIndex, type FolderIndex, type IndexLimits } from './folder-index.ts';
import { locateIndex, prepareIndexFile } from './index-files.ts';
import { createIndexThread } from './index-thread.ts';

/** The indexes of all folders of this process. */
export interface CodeIndexes {
  /** Opens the index of a folder. It may be incomplete. */
  open(place: FilePlace): FolderIndex;
  /** Records a change by a file tool. */
  noteChange(place: FilePlace, path: string): void;
  close(): Promise<void>;
}

export interface CodeIndexesOptions {
  /** The data directory; undefined to keep indexes in memory. */
  readonly dataDir: string | undefined;
  readonly log: Log;
  readonly embeddings?: EmbeddingProvider | undefined;
  readonly limits?: IndexLimits | undefined;
}

/** The number of indexes that are open at a time. Others are opened again when they are needed. */
const maxOpen = 32;
const maxInMemory = 8;
/** The number of folders that are read at a time. */
const maxBuilding = 2;

export function createCodeIndexes({ dataDir, log, embeddings, limits }: CodeIndexesOptions): CodeIndexes {
  const thread = createIndexThread();
  const opened = new Map<string, FolderIndex>();
  const ending = new AbortController();
  const closing = new Map<string, Promise<void>>();
  const acquireBuilding = createConcurrencyLimit(maxBuilding);

  async function takeTurn<T>(work: () => Promise<T>): Promise<T> {
    const release = await acquireBuilding();
    try {
      return await work();
    } finally {
      release();
    }
  }

  function closeOldest(): void {
    const [key, index] = opened.entries().next().value as [string, FolderIndex];
    opened.delete(key);
    const closed = Promise.all([closing.get(key), index.close()]).then(() => {
      if (closing.get(key) === closed) closing.delete(key);
    });
    closing.set(key, closed);
  }

  return {
    open(place) {
      const known = opened.get(place.key);
      opened.delete(place.key);
      const index =
        known ??
        createFolderIndex({
          file: dataDir === undefined ? `:memory:${place.key}` : locateIndex(dataDir, place),
          prepareFile: () => dataDir !== undefined && prepareIndexFile(dataDir, place),
          thread,
          embeddings,
          limits,
          signal: ending.signal,
          async takeTurn(work) {
            // The index may still be open from before. If it were closed during this work, one in memory would be lost.
            await closing.get(place.key);
            return takeTurn(work);
          },
          onFailure: (error) => log.warn('codebase index failed', { error: String(error) }),
        });
      opened.set(place.key, index);
      if (opened.size > (dataDir === undefined ? maxInMemory : maxOpen)) closeOldest();
      return index;
    },

    noteChange: ({ key }, path) => opened.get(key)?.noteChange(path),

    async close() {
      ending.abort();
      while (opened.size > 0) closeOldest();
      await Promise.all(closing.values());
      await thread.close();
    },
  };
}
