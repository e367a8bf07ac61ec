import {
  closeSync,
  constants,
  type FSWatcher,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
  watch,
} from 'node:fs';
import { basename, dirname } from 'node:path';

const pollMs = 400;

/** Resolves the links of a path. A path that does not exist, or cannot be followed, stays as it is. */
export function resolveIfPresent(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}

/** Empty for a file that is missing or cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** Empty for a folder that is missing or cannot be read. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/**
 * The text of a plain file of at most this size; undefined for anything else. A session can put a pipe or a very large
 * file in the place of a file in its workspace, which would hold up everything.
 */
export function readSmallFile(path: string, maxBytes: number): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const facts = fstatSync(descriptor);
    if (!facts.isFile() || facts.size > maxBytes) return undefined;
    const content = Buffer.alloc(maxBytes + 1);
    let length = 0;
    for (let got = -1; got !== 0 && length < content.length; length += got) {
      got = readSync(descriptor, content, length, content.length - length, length);
    }
    return length > maxBytes ? undefined : content.toString('utf8', 0, length);
  } catch {
    return undefined;
  } finally {
    closeSync(descriptor);
  }
}

/** Watches a file, which need not exist, and calls the listener within a second of every change. */
export function watchFile(file: string, listener: () => void): () => void {
  let seen = fileStamp(file);
  const look = (): void => {
    const now = fileStamp(file);
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
    // Not every file system can be watched. Polling is enough.
  }
  const timer = setInterval(look, pollMs).unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function fileStamp(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev} ${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.mode}`;
}
