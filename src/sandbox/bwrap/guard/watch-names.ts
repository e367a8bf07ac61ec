import { join } from 'node:path';
import { guardedNames, guardedPaths } from '../../../lib/fs/protected-paths.ts';
import { guardedIn, lookAt } from './guarded-entries.ts';

/** A folder in which names that are guarded may come to be. */
export interface GuardedFolder {
  readonly path: string;
  /** Guarded names that were there from the start, as names and as paths. */
  readonly present: ReadonlySet<string>;
  /** Those that may be written. */
  readonly isFree: (names: readonly string[]) => boolean;
}

export interface NameWatchOptions {
  readonly list?: typeof guardedIn;
  readonly now?: () => number;
}

/** Names that can be asked for one by one. */
const plainNames = [...guardedNames, ...guardedPaths].filter((name) => !name.includes('*'));
/** Listing a large folder must not become all that Ambit does. */
const shareOfTime = 50;

/**
 * Returns what says which guarded name is new in a folder. Plain names are looked for each time it is asked. The rest, which is
 * patterns, other spellings and repositories, takes a listing of the folder. That is made meanwhile, and after a listing that
 * took long the next one waits.
 */
export function watchNames(
  { path, present, isFree }: GuardedFolder,
  { list = guardedIn, now = () => performance.now() }: NameWatchOptions = {},
): () => string | undefined {
  let found: string | undefined;
  let isListing = false;
  let notBefore = 0;

  async function look(): Promise<void> {
    const began = now();
    const listed = await list(path);
    found = listed.find(({ name, judged }) => !present.has(name) && !isFree(judged))?.name;
    notBefore = now() + (now() - began) * shareOfTime;
    isListing = false;
  }

  return () => {
    found ??= plainNames.find(
      (name) => !present.has(name) && lookAt(join(path, name)) !== undefined && !isFree(name.split('/')),
    );
    if (found === undefined && !isListing && now() >= notBefore) {
      isListing = true;
      void look();
    }
    return found;
  };
}
