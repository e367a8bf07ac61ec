import { opendir } from 'node:fs/promises';
import { isProtectedName, protectedPaths } from '../../../lib/fs/protected-paths.ts';
import { isWriteAllowed, type PinnedPath, statChild } from '../pinned-path.ts';
import { findProtectedNames, type ProtectedName } from './find-protected-names.ts';
import { type CollectedMounts, createCollector } from './mount-collector.ts';
import { protectProtectedLinks } from './protect-git-config.ts';
import { protectRepositories } from './protect-repositories.ts';
import { type MountMark, markMountPoint, type WatchedFolder } from './watch-mount-points.ts';

/** Writes a file that is mounted over another one. */
export type WriteCopy = (content: Buffer, inside: string) => PinnedPath;

interface ProtectedConfig extends CollectedMounts {
  readonly folders: readonly WatchedFolder[];
}

/**
 * Protects the files in a writable folder that a person's own tools run or follow. Protected names count where they
 * exist at the top of the folder. Repositories also count further in, and `.git` at the top even where it is missing.
 */
export async function protectConfigFiles(folder: PinnedPath, writeCopy: WriteCopy): Promise<ProtectedConfig> {
  const collector = createCollector(folder, writeCopy);
  try {
    for (const name of await listProtectedNames(folder)) {
      if (!isWriteAllowed(folder, [name])) collector.addReadOnly(folder, name);
    }
    for (const path of protectedPaths) {
      const [above = '', name = ''] = path.split('/');
      if (isWriteAllowed(folder, [above, name]) || statChild(folder, path) === undefined) continue;
      const held = collector.keepInPlace(folder, above);
      if (held !== undefined) collector.addReadOnly(held, name);
    }
    protectProtectedLinks(folder, collector);
    await protectRepositories(folder, collector);
    const collected = collector.collect();
    if (folder.guard === undefined) return { ...collected, folders: [] };
    const there = await findProtectedNames(folder.source);
    return {
      ...collected,
      mountPoints: [...collected.mountPoints, ...markLinks(folder, there)],
      folders: [
        {
          path: folder.source,
          present: new Set(there.map(({ name }) => name)),
          isWriteAllowed: (names) => isWriteAllowed(folder, names),
        },
      ],
    };
  } catch (error) {
    collector.release();
    throw error;
  }
}

async function listProtectedNames(folder: PinnedPath): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(`/proc/self/fd/${folder.descriptor}`, { bufferSize: 1000 })) {
    if (isProtectedName(name)) names.push(name);
  }
  return names;
}

/** Nothing can be mounted on a link, so a replaced link is detected instead. */
function markLinks(folder: PinnedPath, there: readonly ProtectedName[]): MountMark[] {
  return there.flatMap(({ name, ruleNames }) => {
    const stats = statChild(folder, name);
    if (!stats?.isSymbolicLink() || isWriteAllowed(folder, ruleNames)) return [];
    return [markMountPoint(`${folder.source}/${name}`, stats)];
  });
}
