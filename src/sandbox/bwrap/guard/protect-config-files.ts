import { opendir } from 'node:fs/promises';
import { guardedPaths, isGuardedName } from '../../../lib/fs/guarded-names.ts';
import { isOpened, lookWithin, type Pinned } from '../pinned-path.ts';
import { type GuardedName, guardedIn } from './find-protected-names.ts';
import { type Collected, createCollector } from './mount-collector.ts';
import { guardLinksOf } from './protect-git-config.ts';
import { guardRepositories } from './protect-repositories.ts';
import { type GuardedFolder, type GuardSpot, spotOf } from './watch-mount-points.ts';
/** Writes a file that is shown in place of another one. */
export type ShowCopy = (content: Buffer, inside: string) => Pinned;

export interface Found extends Collected {
  readonly folders: readonly GuardedFolder[];
}

/**
 * What a person's own tools run or follow, in a folder that may be written. Names that are guarded are where they exist, at
 * the top of the folder; repositories also further in, and the name `.git` at the top even where nothing has it.
 */
export async function executedLater(folder: Pinned, showCopy: ShowCopy): Promise<Found> {
  const collector = createCollector(folder, showCopy);
  try {
    for (const name of await guardedNamesIn(folder)) {
      if (!isOpened(folder, [name])) collector.readOnly(folder, name);
    }
    for (const path of guardedPaths) {
      const [above = '', name = ''] = path.split('/');
      if (isOpened(folder, [above, name]) || lookWithin(folder, path) === undefined) continue;
      const held = collector.keep(folder, above);
      if (held !== undefined) collector.readOnly(held, name);
    }
    guardLinksOf(folder, collector);
    await guardRepositories(folder, collector);
    const collected = collector.collected();
    if (folder.guard === undefined) return { ...collected, folders: [] };
    const there = await guardedIn(folder.real);
    return { ...collected, spots: [...collected.spots, ...linksIn(folder, there)], folders: [watched(folder, there)] };
  } catch (error) {
    collector.release();
    throw error;
  }
}

async function guardedNamesIn(folder: Pinned): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(`/proc/self/fd/${folder.descriptor}`, { bufferSize: 1000 })) {
    if (isGuardedName(name)) names.push(name);
  }
  return names;
}

function watched(folder: Pinned, there: readonly GuardedName[]): GuardedFolder {
  const { real: path } = folder;
  const present = new Set(there.map(({ name }) => name));
  return { path, present, isFree: (names) => isOpened(folder, names) };
}

/** Nothing can be mounted upon a link; that it is replaced is at least noticed. */
function linksIn(folder: Pinned, there: readonly GuardedName[]): GuardSpot[] {
  return there.flatMap(({ name, judged }) => {
    const stats = lookWithin(folder, name);
    if (!stats?.isSymbolicLink() || isOpened(folder, judged)) return [];
    return [spotOf({ real: `${folder.real}/${name}`, stats })];
  });
}
