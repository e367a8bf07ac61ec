import type { Stats } from 'node:fs';
import { basename } from 'node:path';
import type { Bounds } from '../../limits/limiter.ts';
import type { Pinned } from '../pinned.ts';
import { lookAt } from './guarded-entries.ts';
import { type GuardedFolder, watchNames } from './watch-names.ts';

/** A name outside upon which something is mounted in a sandbox. */
export interface GuardSpot {
  readonly path: string;
  readonly mark: string;
}

export interface Watched {
  readonly spots: readonly GuardSpot[];
  readonly folders: readonly GuardedFolder[];
}

export function spotOf({ real, stats }: Pick<Pinned, 'real' | 'stats'>): GuardSpot {
  return { path: real, mark: markOf(stats) };
}

/**
 * When somebody outside replaces a file, as git and many editors do, the kernel takes away what was mounted upon it, and
 * the new file can be written inside. What is new has no guard at all, whoever made it. So a process whose guards are not
 * as they should be is ended; the next one gets new ones.
 */
export function boundsWithGuards(bounds: Bounds, { spots, folders }: Watched): Bounds {
  const watches = folders.map((folder) => watchNames(folder));
  return {
    ...bounds,
    check: (pid, processes) => bounds.check(pid, processes) ?? replacedGuard(spots) ?? newName(watches),
  };
}

function newName(watches: readonly (() => string | undefined)[]): string | undefined {
  for (const watch of watches) {
    const name = watch();
    if (name === undefined) continue;
    return `"${name}", which servers in a sandbox may only read, is new in the folder; look who made it, or open it in workspaces.*.files.open`;
  }
  return undefined;
}

function replacedGuard(spots: readonly GuardSpot[]): string | undefined {
  const gone = spots.find(({ path, mark }) => {
    const now = lookAt(path);
    return now === undefined || markOf(now) !== mark;
  });
  if (gone === undefined) return undefined;
  return `"${basename(gone.path)}", which it may only read, was replaced; it starts anew with the next call`;
}

/** The number of a file may be given to the next one. */
const markOf = ({ dev, ino, birthtimeMs }: Stats): string => `${dev}:${ino}:${birthtimeMs}`;
