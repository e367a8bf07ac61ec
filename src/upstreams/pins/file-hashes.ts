import { createHash, type Hash } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { createMutex } from '../../lib/async/mutex.ts';

interface HashedFile {
  readonly real: string;
  readonly sha256: string;
}

/** Hashes a file; undefined when there is no readable plain file at this path. */
export type HashFile = (path: string) => HashedFile | 'too large' | undefined;

/** The hashes of files, computed again only when the file has changed. */
export interface FileHashes {
  /**
   * Returns a function that hashes the files of one server. Together they may have `maxPinnedBytes`. With the approved
   * hashes by path, it reads no file that must differ from them: a new one, or one of another size.
   */
  reader(approved?: ReadonlyMap<string, string | undefined>): HashFile;
  /**
   * The same for these files. They are read in pieces, between which other work goes on. A file
   * that nobody waits for any more is not read to its end.
   */
  readInPieces(paths: Iterable<string>, signal?: WantedSignal): Promise<HashFile>;
}

/** Aborted when nobody waits for the hashes any more. */
export type WantedSignal = Pick<AbortSignal, 'aborted'>;

/** The size of all pinned files of a server together. Whoever may write to one could otherwise hold up every session. */
export const maxPinnedBytes = 256 << 20;
/** Younger files are not cached: two writes within one tick of the clock look alike. */
const settledNs = 2_000_000_000n;
const chunkBytes = 1 << 20;
const maxCached = 10_000;
/** The resolved path has no link: O_NOFOLLOW refuses one that was made meanwhile. O_NONBLOCK does not wait at a pipe. */
const openFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/** Stands for the hash of a file that was not read, because it differs from the approved one in any case. */
const otherContent = 'other content';

/** The bytes that may still be read for one server, and the files that count already. */
interface Budget {
  left: number;
  readonly counted: Set<string>;
}

/** The read of a file that has not begun yet, and the signals of all who wait for it. */
interface DueRead {
  readonly signals: (WantedSignal | undefined)[];
  readonly result: Promise<ReturnType<HashFile>>;
}

export function createFileHashes(now: () => number = Date.now): FileHashes {
  const known = new Map<string, { readonly stamp: string; readonly hashed: HashedFile }>();
  /** The sizes of contents by hash. */
  const sizes = new Map<string, bigint>();
  const due = new Map<string, DueRead>();
  const lock = createMutex();

  /** Answers without reading where it can; undefined if the content must be read. */
  function recall(real: string, facts: BigIntStats, budget: Budget): { hashed: ReturnType<HashFile> } | undefined {
    if (!facts.isFile()) return { hashed: undefined };
    if (!takeFrom(budget, real, Number(facts.size))) return { hashed: 'too large' };
    const cached = known.get(real);
    return cached?.stamp === statStamp(facts) ? { hashed: cached.hashed } : undefined;
  }

  function remember(hashed: HashedFile, before: BigIntStats, after: BigIntStats): HashedFile {
    const stamp = statStamp(before);
    if (sizes.size >= maxCached) sizes.clear();
    if (statStamp(after) === stamp) sizes.set(hashed.sha256, before.size);
    const settled = BigInt(now()) * 1_000_000n - after.ctimeNs > settledNs;
    if (known.size >= maxCached) known.clear();
    if (settled && statStamp(after) === stamp) known.set(hashed.real, { stamp, hashed });
    else known.delete(hashed.real);
    return hashed;
  }

  function mustDiffer(approved: string | undefined, { size }: BigIntStats): boolean {
    return approved === undefined || (sizes.get(approved) ?? size) !== size;
  }

  function hashNow(
    path: string,
    budget: Budget,
    approved: ReadonlyMap<string, string | undefined> | undefined,
  ): ReturnType<HashFile> {
    let descriptor: number;
    let real: string;
    try {
      real = realpathSync.native(path);
      descriptor = openSync(real, openFlags);
    } catch {
      return undefined;
    }
    try {
      const before = fstatSync(descriptor, { bigint: true });
      const recalled = recall(real, before, budget);
      if (recalled !== undefined) return recalled.hashed;
      if (approved !== undefined && mustDiffer(approved.get(path), before)) return { real, sha256: otherContent };
      const content = createContentHash();
      while (content.wantsMore) content.add(readSync(descriptor, content.chunk, 0, chunkBytes, null));
      const sha256 = content.finish();
      if (sha256 === undefined) return 'too large';
      return remember({ real, sha256 }, before, fstatSync(descriptor, { bigint: true }));
    } finally {
      closeSync(descriptor);
    }
  }

  async function hashInPieces(path: string, budget: Budget, signal: WantedSignal | undefined) {
    const found = findFile(path);
    if (found === undefined) return undefined;
    const recalled = recall(found.real, found.facts, budget);
    return recalled === undefined ? joinRead(found.real, signal) : recalled.hashed;
  }

  /** Joins the read of a file that others wait for. Not one that has begun: the file may have changed since. */
  function joinRead(real: string, signal: WantedSignal | undefined): Promise<ReturnType<HashFile>> {
    const known = due.get(real);
    if (known !== undefined) {
      known.signals.push(signal);
      return known.result;
    }
    const signals = [signal];
    const result = readInTurn(real, () => signals.some((each) => each?.aborted !== true));
    due.set(real, { signals, result });
    return result;
  }

  /** One at a time: the pieces of many files at once would hold up others as much as one large piece. */
  async function readInTurn(real: string, isWanted: () => boolean): Promise<ReturnType<HashFile>> {
    const release = await lock();
    due.delete(real);
    try {
      return isWanted() ? await readContent(real, isWanted) : undefined;
    } finally {
      release();
    }
  }

  async function readContent(real: string, isWanted: () => boolean): Promise<ReturnType<HashFile>> {
    const handle = await open(real, openFlags);
    try {
      const before = await handle.stat({ bigint: true });
      // It may have been read, or replaced, since it was asked for.
      const recalled = recall(real, before, createBudget());
      if (recalled !== undefined) return recalled.hashed;
      const content = createContentHash();
      while (content.wantsMore) {
        if (!isWanted()) return undefined;
        content.add((await handle.read(content.chunk, 0, chunkBytes, null)).bytesRead);
      }
      const sha256 = content.finish();
      if (sha256 === undefined) return 'too large';
      return remember({ real, sha256 }, before, await handle.stat({ bigint: true }));
    } finally {
      await handle.close();
    }
  }

  return {
    reader(approved) {
      const budget = createBudget();
      return (path) => hashNow(path, budget, approved);
    },

    async readInPieces(paths, signal) {
      const budget = createBudget();
      const found = new Map<string, ReturnType<HashFile>>();
      for (const path of new Set(paths)) {
        if (signal?.aborted === true) break;
        found.set(path, await hashInPieces(path, budget, signal).catch(() => undefined));
      }
      return (path) => found.get(path);
    },
  };
}

const createBudget = (): Budget => ({ left: maxPinnedBytes, counted: new Set() });

function takeFrom(budget: Budget, real: string, size: number): boolean {
  if (budget.counted.has(real)) return true;
  if (size > budget.left) return false;
  budget.left -= size;
  budget.counted.add(real);
  return true;
}

/** Finds the file that a path leads to, without a descriptor: many may wait at once. */
function findFile(path: string): { readonly real: string; readonly facts: BigIntStats } | undefined {
  try {
    const real = realpathSync.native(path);
    return { real, facts: lstatSync(real, { bigint: true }) };
  } catch {
    return undefined;
  }
}

/** Includes the change time, which a writer of the file cannot set. */
function statStamp({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

/** Hashes a content piece by piece, up to the largest size: the file may grow while it is read. */
function createContentHash() {
  const hash: Hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(chunkBytes);
  let length = 0;
  let isOver = false;
  return {
    chunk,
    get wantsMore() {
      return !isOver && length <= maxPinnedBytes;
    },
    add(bytes: number) {
      isOver = bytes === 0;
      length += bytes;
      hash.update(chunk.subarray(0, bytes));
    },
    finish: () => (length > maxPinnedBytes ? undefined : hash.digest('hex')),
  };
}

/** Tells whether a file begins with `#!`. */
export function isScript(path: string): boolean {
  const head = Buffer.alloc(2);
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      readSync(descriptor, head, 0, 2, 0);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // Only programs of the system are executable but not readable.
    return false;
  }
  return head.toString('latin1') === '#!';
}
