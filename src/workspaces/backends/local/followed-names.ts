import { type Stats, statSync } from 'node:fs';
import { readEntries } from '../../../lib/fs/follow-links.ts';
import { isFollowed, plainlyFollowedIn } from '../../../lib/fs/guarded-links.ts';
import { createPace } from '../../saferoot/time-slice.ts';

/** Nobody knows which links lie in a folder. The message is why nothing is to be changed then. */
export class NamesUnknown extends Error {
  constructor(what: string) {
    super(what);
    this.name = 'NamesUnknown';
  }
}

/** Which names in folders are followed by others for what they are called. */
export interface FollowedNames {
  /** Not known where a large folder is still being looked through, or holds too many of them. */
  namesIn(folder: string): { readonly names: readonly string[] | NamesUnknown; stillHolds(): boolean };
  /** The first look through large folders, where one is under way. */
  underWay(): Promise<void> | undefined;
  /** How many looks have come to their end. */
  ended(): number;
}

export interface FollowedNamesOptions {
  /** Told when a large folder has been looked through. */
  readonly onFound?: () => void;
  /** The first look through a large folder is not left for later, for whoever cannot wait. */
  readonly firstAtOnce?: boolean;
}

const stillLooking = new NamesUnknown('its folder has very many names, which are still looked through');
const tooMany = new NamesUnknown('its folder has too many protected links to follow them all');
/** Few enough to be read each time the folder has changed. */
const mostAtOnce = 1000;
const mostFollowed = 2000;
const mostRemembered = 500;
/** A large folder is looked through again after a pause, which is longer than the look takes. */
const namesPerMsOfPause = 100;

interface Found {
  /** How the folder was before it was looked through. */
  readonly mark: string;
  readonly names: ReadonlySet<string>;
  /** How many names there were in all. */
  readonly count: number;
  readonly pauseUntil: number;
}

/**
 * A folder with many names is not read for each change in it. Names that are known are looked for each time; those that
 * fit a pattern are as they were when the whole folder was last looked through, beside other work.
 */
export function createFollowedNames({ onFound, firstAtOnce = false }: FollowedNamesOptions = {}): FollowedNames {
  const large = new Map<string, Found>();
  const running = new Set<string>();
  const firstLooks = new Map<string, Promise<void>>();
  let last: Promise<void> = Promise.resolve();
  let ended = 0;

  function keep(folder: string, found: Found): Found {
    large.delete(folder);
    large.set(folder, found);
    if (large.size > mostRemembered) large.delete(large.keys().next().value as string);
    return found;
  }

  function lookBeside(folder: string): void {
    if (running.has(folder)) return;
    last = last.then(async () => {
      const look = lookThrough(folder);
      const pace = createPace();
      let step = look.next();
      for (; !step.done; step = look.next()) await pace();
      if (step.value.count > mostAtOnce) keep(folder, step.value);
      else large.delete(folder);
      running.delete(folder);
      firstLooks.delete(folder);
      ended++;
      onFound?.();
    });
    running.add(folder);
    if (!large.has(folder)) firstLooks.set(folder, last);
  }

  const isDue = (folder: string, { mark, pauseUntil }: Found): boolean =>
    performance.now() >= pauseUntil && contentOf(folder) !== mark;

  function lastFound(folder: string): Found | undefined {
    const found = large.get(folder);
    if (found === undefined && firstAtOnce) return keep(folder, atOnce(lookThrough(folder)));
    if (found === undefined || isDue(folder, found)) lookBeside(folder);
    return found && keep(folder, found);
  }

  return {
    namesIn(folder) {
      const few = large.has(folder) ? undefined : fewNamesIn(folder);
      if (few !== undefined) return { names: bounded(few), stillHolds: () => true };
      const found = lastFound(folder);
      if (found === undefined) return { names: stillLooking, stillHolds: () => firstLooks.has(folder) };
      return {
        names: bounded([...new Set([...found.names, ...plainlyFollowedIn(folder)])]),
        stillHolds: () => large.get(folder)?.names === found.names && (running.has(folder) || !isDue(folder, found)),
      };
    },
    underWay: () => [...firstLooks.values()].at(-1),
    ended: () => ended,
  };
}

/** Undefined where there are more than can be read at once. */
function fewNamesIn(folder: string): string[] | undefined {
  const names: string[] = [];
  let count = 0;
  for (const entry of readEntries(folder)) {
    if (++count > mostAtOnce) return undefined;
    if (isFollowed(entry)) names.push(entry.name);
  }
  return names;
}

/** A step for every few names, so that others can go on in between. */
function* lookThrough(folder: string): Generator<void, Found> {
  const mark = contentOf(folder);
  const names = new Set<string>();
  let count = 0;
  for (const entry of readEntries(folder)) {
    if (isFollowed(entry) && names.size <= mostFollowed) names.add(entry.name);
    if (++count % 64 === 0) yield;
  }
  return { mark, names, count, pauseUntil: performance.now() + count / namesPerMsOfPause };
}

function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

function bounded(names: readonly string[]): readonly string[] | NamesUnknown {
  return names.length > mostFollowed ? tooMany : names;
}

/** Which thing was found at a place. */
export function identityOf(found: Stats | undefined): string {
  return found === undefined ? '' : `${found.dev}:${found.ino}:${found.mode & 0o170000}`;
}

/** What a file or folder holds, as far as its own facts tell. */
export function contentOf(place: string): string {
  const stats = statAt(place);
  return stats === undefined
    ? ''
    : `${stats.dev}:${stats.ino}:${stats.mode}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function statAt(place: string): Stats | undefined {
  try {
    return statSync(place, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
