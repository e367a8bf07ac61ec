import { type FSWatcher, statSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

const pollMs = 400;

/** Calls back within a second of every change to a file, whether or not the system can tell. */
export function watchFile(file: string, listener: () => void): () => void {
  let seen = stampOf(file);
  const look = (): void => {
    const now = stampOf(file);
    if (now === seen) return;
    seen = now;
    listener();
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(dirname(file), { persistent: false }, (_, name) => {
      if (name === null || name === basename(file)) look();
    });
    watcher.on('error', () => watcher?.close());
  } catch {
    // Not every file system can be watched; asking is enough.
  }
  const timer = setInterval(look, pollMs).unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function stampOf(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev} ${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.mode}`;
}
