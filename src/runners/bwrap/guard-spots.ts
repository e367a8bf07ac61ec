import { lstatSync, type Stats } from 'node:fs';
import { basename } from 'node:path';
import type { Bounds } from '../limits/limiter.ts';
import type { Pinned } from './pinned.ts';

/** A name outside upon which something is mounted in a sandbox. */
export interface GuardSpot {
  readonly path: string;
  readonly mark: string;
}

export function spotOf({ real, stats }: Pinned): GuardSpot {
  return { path: real, mark: markOf(stats) };
}

/**
 * When somebody outside replaces a file, as git and many editors do, the kernel takes away what was mounted upon it, and
 * the new file can be written inside. So a process whose guards are not as they were is ended; the next one gets new ones.
 */
export function boundsWithGuards(bounds: Bounds, spots: readonly GuardSpot[]): Bounds {
  return {
    ...bounds,
    check: (pid, processes) => bounds.check(pid, processes) ?? replacedGuard(spots),
  };
}

function replacedGuard(spots: readonly GuardSpot[]): string | undefined {
  const gone = spots.find(({ path, mark }) => {
    const now = lstatSync(path, { throwIfNoEntry: false });
    return now === undefined || markOf(now) !== mark;
  });
  if (gone === undefined) return undefined;
  return `"${basename(gone.path)}", which it may only read, was replaced; it starts anew with the next call`;
}

/** The number of a file may be given to the next one. */
const markOf = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;
