import { unlinkSync } from 'node:fs';
import type { Folder } from './folder.ts';
import { createPace } from './give-way.ts';
import { namesIn, stepIfThere } from './names-in.ts';
import { at, type Handle } from './platform/ground.ts';
import { systemCode } from './saferoot-error.ts';
import { maxTreeDepth } from './survey.ts';
import { isLeftOver, isTemporaryName } from './temporary-name.ts';

export interface SweepOptions {
  /** So many names are looked at; 20,000 unless given. */
  readonly maxEntries?: number;
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
