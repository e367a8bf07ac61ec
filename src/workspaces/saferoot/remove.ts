import { rmdirSync, unlinkSync } from 'node:fs';
import { asPath, assertAdmitted } from './check-access.ts';
import { type Kind, kindOf } from './file-info.ts';
import { at, type Handle } from './platform/platform-fs.ts';
import { namesIn, stepIfThere } from './read-names.ts';
import { type Folder, found, placeOf, walked, walkedUntil } from './root-folder.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import { maxTreeDepth, surveyed } from './survey-tree.ts';
import { isLeftOver, isTemporaryName } from './temporary-file.ts';
import { createPace, oneAtATime, type Pace } from './time-slice.ts';

export interface SweepOptions {
  /** So many names are looked at; 20,000 unless given. */
  readonly maxEntries?: number;
}

export interface RemovedTree {
  readonly path: string;
  readonly kind: Kind;
  /** How many files, links and folders are gone. */
  readonly entries: number;
}

/** Removes a file, a link itself, a special file (which is not opened for it), or an empty folder. */
export function remove(folder: Folder, path: string): RemovedTree {
  return walked(folder, path, { deed: 'write', keepLastLink: true, lastGoes: true }, (end) => {
    const node = found(end);
    const place = placeOf(end);
    removeName(node, at(place.folder, place.name));
    return { path: asPath(end.inside), kind: kindOf(node.stats), entries: 1 };
  });
}

export interface RemoveTreeOptions {
  /** A tree with more is refused before anything is removed; 100,000 unless given. */
  readonly maxEntries?: number;
}

/**
 * Removes a folder and all that is in it. Links are removed, not followed; other mounts are not entered. A tree that is
 * too large, leads elsewhere or holds what may not be removed stays whole.
 */
export async function removeTree(folder: Folder, path: string, options: RemoveTreeOptions = {}): Promise<RemovedTree> {
  const { maxEntries = 100_000 } = options;
  return walkedUntil(folder, path, { deed: 'write', keepLastLink: true, lastGoes: true }, async (end) => {
    const node = found(end);
    const place = placeOf(end);
    if (node.stats.isDirectory()) {
      const survey = { ways: [end.inside], maxEntries, oneMount: true };
      await oneAtATime(folder, () => surveyed(folder, node, survey));
    }
    const progress = { count: 0, pace: createPace() };
    await removeAll(folder, node, at(place.folder, place.name), end.inside, progress);
    return { path: asPath(end.inside), kind: kindOf(node.stats), entries: progress.count };
  });
}

interface Progress {
  count: number;
  readonly pace: Pace;
}

async function removeAll(
  folder: Folder,
  node: Handle,
  name: string | Buffer,
  inside: readonly string[],
  progress: Progress,
  depth = 1,
): Promise<void> {
  if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
  for (let left = 3; ; left--) {
    try {
      if (node.stats.isDirectory()) await empty(folder, node, inside, progress, depth);
      removeName(node, name);
      progress.count++;
      const pause = progress.pace();
      if (pause !== undefined) await pause;
      return;
    } catch (error) {
      // Someone wrote into it meanwhile, or the system left an entry out while others went.
      if (systemCode(error) !== 'ENOTEMPTY' || left === 0) throw error;
    }
  }
}

async function empty(
  folder: Folder,
  node: Handle,
  inside: readonly string[],
  progress: Progress,
  depth: number,
): Promise<void> {
  // Where that is not known in time, each entry is refused.
  await folder.prepare?.(inside);
  for (const { name } of namesIn(node)) {
    const child = stepIfThere(folder, node, name);
    if (child === undefined) continue;
    try {
      const text = name.toString();
      const there = [...inside, text];
      // Asked once more: it may have come after the survey.
      if (!isTemporaryName(text)) assertAdmitted(folder.admit, 'write', there, kindOf(child.stats));
      await removeAll(folder, child, at(node, name), there, progress, depth + 1);
    } finally {
      folder.ground.release(child);
    }
  }
}

function removeName(node: Handle, name: string | Buffer): void {
  if (node.stats.isDirectory()) rmdirSync(name);
  else unlinkSync(name);
}

/** Goes through the tree, folders that may not be written to left out, and removes what killed writes left. */
export async function sweep(folder: Folder, { maxEntries = 20_000 }: SweepOptions = {}): Promise<number> {
  const pace = createPace();
  let looked = 0;
  let removed = 0;

  async function below(node: Handle, inside: readonly string[]): Promise<void> {
    if (inside.length > maxTreeDepth) return;
    for (const { name, kind } of namesIn(node)) {
      if (++looked > maxEntries) return;
      const pause = pace();
      if (pause !== undefined) await pause;
      const text = name.toString();
      if (kind === 'file' && isTemporaryName(text)) removed += removeLeftOver(folder, node, text);
      if (kind !== 'folder' || folder.admit?.('write', [...inside, text], kind) !== undefined) continue;
      const child = stepIfThere(folder, node, name);
      if (child === undefined) continue;
      try {
        if (child.stats.isDirectory()) await below(child, [...inside, text]);
      } catch (error) {
        // One that cannot be read is left as it is.
        if (systemCode(error) === undefined) throw error;
      } finally {
        folder.ground.release(child);
      }
    }
  }

  await below(folder.root, []);
  return removed;
}

function removeLeftOver(folder: Folder, node: Handle, name: string): number {
  const file = stepIfThere(folder, node, name);
  if (file === undefined) return 0;
  folder.ground.release(file);
  if (!file.stats.isFile() || !isLeftOver(name, file.stats.mtimeMs)) return 0;
  try {
    unlinkSync(at(node, name));
    return 1;
  } catch {
    return 0;
  }
}
