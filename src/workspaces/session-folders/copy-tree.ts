import { chmodSync, mkdirSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { unlessGone, walkTree } from './walk-tree.ts';

const mostCopiedBytes = 32 * 1024 ** 3;

export interface Copied {
  readonly entries: number;
  /** Devices, pipes, and names that no path can say. */
  readonly leftOut: number;
}

/**
 * Copies all that a folder holds into an empty one that nobody else can reach yet. Links stay links, wherever they lead:
 * they are not followed.
 */
export async function copyTree(from: SafeRoot, to: string, maxBytes = mostCopiedBytes): Promise<Copied> {
  let [entries, leftOut, bytes] = [0, 0, 0];
  const folders: { readonly path: string; readonly mode: number }[] = [];
  for await (const { path, kind, facts } of walkTree(from, { onLeftOut: () => leftOut++ })) {
    const target = join(to, path);
    entries++;
    if (kind === 'folder') {
      mkdirSync(target, { mode: 0o700 });
      folders.push({ path: target, mode: facts.mode });
    } else if (kind === 'link') {
      const said = await unlessGone(from.readlink(path, { absolute: true }));
      if (said !== undefined) symlinkSync(said, target);
    } else {
      bytes += facts.size;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      await copyOne(from, path, target);
    }
  }
  // Afterwards: one that may not be written could not have been filled.
  for (const { path, mode } of folders.reverse()) chmodSync(path, mode & 0o777);
  return { entries, leftOut };
}

async function copyOne(from: SafeRoot, path: string, target: string): Promise<void> {
  const file = await unlessGone(from.open(path));
  if (file === undefined) return;
  try {
    await file.copyTo(target);
    const { mode, modifiedMs } = file.facts;
    // Neither set-user-id nor its kin: the copy is ours, and would run as us.
    chmodSync(target, mode & 0o777);
    utimesSync(target, modifiedMs / 1000, modifiedMs / 1000);
  } finally {
    await file.close();
  }
}

function tooLarge(most: number): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what: `The workspace holds more than ${Math.floor(most / 1024 ** 2)} MiB, which is not copied for a session.`,
    hint: 'Let the workspace be a smaller folder, or use "isolation: worktree".',
  });
}
