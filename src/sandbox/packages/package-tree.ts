import { type Dirent, lstatSync, opendirSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { setTimeout as delay, setImmediate as yieldToOthers } from 'node:timers/promises';
import { refuseOffender, showWord } from './registry-check.ts';

/** The size on the disk of a fetched package, with all its dependencies. */
export interface TreeBounds {
  readonly bytes: number;
  /** Files, folders and links. */
  readonly files: number;
}

export const defaultBounds: TreeBounds = { bytes: 2 * 2 ** 30, files: 200_000 };

/** A package is too large. The message completes the sentence "it has …". */
export class TooLargeError extends Error {}

const minPauseMs = 200;

/** Limits the share of time that checks may take during a fetch. */
const shareOfTime = 4;

const blockBytes = 512;

interface FetchedEntry {
  readonly path: string;
  readonly entry: Dirent;
}

/** The number of entries after which the event loop may run. */
const entriesPerYield = 200;

/**
 * Throws, with the name of the offender, when something in the folder leads out of it, or is neither a file nor a
 * folder. `mayLeave` allows links by their path in the folder.
 */
export async function assertNoEscape(folder: string, mayLeave: (path: string) => boolean = () => false): Promise<void> {
  const root = realpathSync.native(folder);
  for await (const { path, entry } of walkFolder(root)) {
    if (entry.isDirectory() || entry.isFile()) continue;
    const name = relative(root, path);
    if (!entry.isSymbolicLink()) refuseOffender(`"${showWord(name)}", which is neither a file nor a folder`);
    if (!leadsInside(path, root) && !mayLeave(name))
      refuseOffender(`the link "${showWord(name)}", which leads out of it`);
  }
}

function leadsInside(link: string, root: string): boolean {
  try {
    return realpathSync.native(link).startsWith(root + sep);
  } catch {
    // A dangling link may lead somewhere later.
    return false;
  }
}

/**
 * Walks a folder without following links. Entries that disappear meanwhile are left out: a tool may still be at work.
 */
async function* walkFolder(folder: string): AsyncGenerator<FetchedEntry> {
  const open = [folder];
  let seen = 0;
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const entry of readEntries(current)) {
      if (++seen % entriesPerYield === 0) await yieldToOthers();
      const path = join(current, entry.name);
      if (entry.isDirectory()) open.push(path);
      yield { path, entry };
    }
  }
}

/** Reads in pieces: a folder may have more names than fit in memory. */
function* readEntries(folder: string): Generator<Dirent> {
  let names: ReturnType<typeof opendirSync>;
  try {
    names = opendirSync(folder, { bufferSize: entriesPerYield });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    for (let entry = names.readSync(); entry !== null; entry = names.readSync()) yield entry;
  } finally {
    names.closeSync();
  }
}

/** Throws when the folders together exceed the bounds. `times` widens the bounds. */
export async function assertTreeSize(folders: readonly string[], bounds: TreeBounds, times = 1): Promise<void> {
  let [bytes, files] = [0, 0];
  for (const folder of folders) {
    for await (const { path, entry } of walkFolder(folder)) {
      files += 1;
      const facts = entry.isFile() ? lstatSync(path, { throwIfNoEntry: false }) : undefined;
      if (facts !== undefined) bytes += Math.max(facts.size, facts.blocks * blockBytes);
      if (bytes > bounds.bytes * times || files > bounds.files * times) throw new TooLargeError(formatBounds(bounds));
    }
  }
}

/**
 * Checks the size repeatedly during a fetch. Meanwhile the tool has its cache beside the package, so twice as much is
 * allowed. Returns a function that stops the checks and resolves with the error, if any. `onOver` is called once.
 */
export function watchTree(folders: readonly string[], bounds: TreeBounds, onOver: () => void): () => Promise<unknown> {
  const stop = new AbortController();
  const watching = checkRepeatedly().catch((error: unknown) => {
    if (stop.signal.aborted) return undefined;
    onOver();
    return error;
  });
  return () => {
    stop.abort();
    return watching;
  };

  async function checkRepeatedly(): Promise<void> {
    for (let pause = minPauseMs; ; ) {
      await delay(pause, undefined, { signal: stop.signal });
      const began = performance.now();
      await assertTreeSize(folders, bounds, 2);
      pause = Math.max(minPauseMs, (performance.now() - began) * shareOfTime);
    }
  }
}

function formatBounds({ bytes, files }: TreeBounds): string {
  return `more than ${Math.floor(bytes / 2 ** 20)} MiB or ${files} files`;
}
