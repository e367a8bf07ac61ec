import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, realpathSync } from 'node:fs';

interface HashedFile {
  readonly real: string;
  readonly sha256: string;
  /** True when the file begins with `#!`. */
  readonly script: boolean;
}

/** The hashes of files, computed again only when the file has changed. */
export interface FileHashes {
  /** Hashes a file; undefined when there is no readable plain file at this path. */
  hash(path: string): HashedFile | undefined;
}

/** Younger files are not cached: two writes within one tick of the clock look alike. */
const settledNs = 2_000_000_000n;
const chunkBytes = 1 << 20;
const maxCached = 10_000;

export function createFileHashes(now: () => number = Date.now): FileHashes {
  const known = new Map<string, { readonly stamp: string; readonly hashed: HashedFile }>();

  return {
    hash(path) {
      let descriptor: number;
      let real: string;
      try {
        real = realpathSync.native(path);
        // The resolved path has no link. O_NOFOLLOW refuses one that was made meanwhile.
        descriptor = openSync(real, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
      } catch {
        return undefined;
      }
      try {
        const before = fstatSync(descriptor, { bigint: true });
        if (!before.isFile()) return undefined;
        const stamp = statStamp(before);
        const cached = known.get(real);
        if (cached?.stamp === stamp) return cached.hashed;
        const hashed = { real, ...hashContent(descriptor) };
        const after = fstatSync(descriptor, { bigint: true });
        const settled = BigInt(now()) * 1_000_000n - after.ctimeNs > settledNs;
        if (known.size >= maxCached) known.clear();
        if (settled && statStamp(after) === stamp) known.set(real, { stamp, hashed });
        else known.delete(real);
        return hashed;
      } finally {
        closeSync(descriptor);
      }
    },
  };
}

/** Includes the change time, which a writer of the file cannot set. */
function statStamp({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

function hashContent(descriptor: number): { sha256: string; script: boolean } {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(chunkBytes);
  let script = false;
  for (let first = true; ; first = false) {
    const length = readSync(descriptor, chunk, 0, chunk.length, null);
    if (length === 0) return { sha256: hash.digest('hex'), script };
    if (first) script = chunk[0] === 0x23 && chunk[1] === 0x21;
    hash.update(chunk.subarray(0, length));
  }
}
