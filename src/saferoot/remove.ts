import { rmdirSync, unlinkSync } from 'node:fs';
import { type Folder, found, placeOf, walked, walkedUntil } from './folder.ts';
import { at, type Handle } from './ground.ts';
import { entriesIn, type Pace } from './list-folder.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';

/** Removes a file, a link itself, a special file (which is not opened for it), or an empty folder. */
export function remove(folder: Folder, path: string): void {
  walked(folder, path, { keepLastLink: true }, (end) => {
    const node = found(end);
    const place = placeOf(end);
    removeName(node, at(place.folder, place.name));
  });
}

export interface RemoveTreeOptions {
  /** A tree with more is refused before anything is removed; 100,000 unless given. */
  readonly maxEntries?: number;
}

const maxDepth = 128;

/** Removes a folder and all that is in it. Links are removed, not followed; other mounts are not entered. */
export async function removeTree(folder: Folder, path: string, options: RemoveTreeOptions = {}): Promise<void> {
  await walkedUntil(folder, path, { keepLastLink: true }, async (end) => {
    const node = found(end);
    const place = placeOf(end);
    const pace: Pace = { count: 0 };
    if (node.stats.isDirectory()) await survey(folder, node, { left: options.maxEntries ?? 100_000 }, pace, 1);
    await removeAll(folder, node, at(place.folder, place.name), pace, 1);
  });
}

/** Looks through the whole tree first: one that is too large or leads elsewhere stays whole. */
async function survey(folder: Folder, node: Handle, budget: { left: number }, pace: Pace, depth: number) {
  await eachChild(folder, node, pace, depth, async (child) => {
    if (--budget.left < 0) throw new SafeRootError('TOO_MANY_ENTRIES');
    if (!child.stats.isDirectory()) return;
    if (!folder.ground.onSameMount(child, node))
      throw new SafeRootError('OTHER_DEVICE', { what: 'holds another mount' });
    await survey(folder, child, budget, pace, depth + 1);
  });
}

async function removeAll(folder: Folder, node: Handle, name: string | Buffer, pace: Pace, depth: number) {
  for (let left = 3; ; left--) {
    try {
      if (node.stats.isDirectory()) {
        await eachChild(folder, node, pace, depth, (child, childName) =>
          removeAll(folder, child, at(node, childName), pace, depth + 1),
        );
      }
      removeName(node, name);
      return;
    } catch (error) {
      // Someone wrote into it meanwhile, or the system left an entry out while others went.
      if (systemCode(error) !== 'ENOTEMPTY' || left === 0) throw error;
    }
  }
}

async function eachChild(
  folder: Folder,
  node: Handle,
  pace: Pace,
  depth: number,
  visit: (child: Handle, name: Buffer) => Promise<void>,
): Promise<void> {
  if (depth > maxDepth) throw new SafeRootError('TOO_DEEP');
  for await (const { name } of entriesIn(node, pace)) {
    const child = stepIfThere(folder, node, name);
    if (child === undefined) continue;
    try {
      await visit(child, name);
    } finally {
      folder.ground.release(child);
    }
  }
}

function stepIfThere(folder: Folder, node: Handle, name: Buffer): Handle | undefined {
  try {
    return folder.ground.step(node, name);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function removeName(node: Handle, name: string | Buffer): void {
  if (node.stats.isDirectory()) rmdirSync(name);
  else unlinkSync(name);
}
