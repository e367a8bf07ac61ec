import { realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Confinement, Mount } from '../common/confinement.ts';
import { findMachineCredentials } from '../common/machine-credentials.ts';
import { isInside, isSystemPath, type LinkCopy, type VisiblePaths } from '../common/visibility-filter.ts';
import { statIfReadable } from './guard/find-protected-names.ts';
import type { ProtectedPaths } from './guard/mount-collector.ts';
import { type Placeholder, releasePlaceholders } from './guard/placeholders.ts';
import { protectConfigFiles } from './guard/protect-config-files.ts';
import { type MountMark, markMountPoint, type WatchedFolder, type WatchedPaths } from './guard/watch-mount-points.ts';
import { type PinnedPath, pinPath, releasePins, statChild } from './pinned-path.ts';

export interface Mounts {
  /** Outer mounts come first. */
  readonly entries: readonly PinnedMount[];
  readonly links: readonly LinkCopy[];
  readonly guarded: ProtectedPaths;
  /** Paths that must stay unchanged while the mounts exist. */
  readonly watched: WatchedPaths;
  /** Closes the descriptors that were held for mounting. */
  release(): void;
  /** Removes the placeholders of missing names, once no process needs the mounts any more. */
  removePlaceholders(): void;
}

export interface PinnedMount {
  readonly pinned: PinnedPath;
  readonly writable: boolean;
}

interface WantedMount {
  readonly mount: Mount;
  readonly writable: boolean;
}

const kernelFolders = ['/proc', '/sys', '/dev'];

/**
 * Pins everything that is mounted beside the system, each by a descriptor. Throws when something is missing.
 * `hasSystem` is false where the system inside is not this machine's. Redacted copies are written to the folder
 * `copies`.
 */
export async function pinMounts(
  confinement: Confinement,
  server: VisiblePaths,
  copies: string,
  hasSystem = true,
): Promise<Mounts> {
  const { home, volume, readable, writable } = confinement;
  const homes = volume === undefined ? [home] : [];
  const wanted: WantedMount[] = [
    ...homes.map((mount) => ({ mount, writable: true })),
    ...writable.map((mount) => ({ mount, writable: true })),
    ...[...readable, ...server.mounts].map((mount) => ({ mount, writable: false })),
  ];
  const held: PinnedPath[] = [];
  const placeholders: Placeholder[] = [];
  const kept: PinnedPath[] = [];
  const readOnly: PinnedPath[] = [];
  const mountPoints: MountMark[] = [];
  const folders: WatchedFolder[] = [];
  let copied = 0;
  const writeCopy = (content: Buffer, inside: string): PinnedPath => {
    const real = join(realpathSync.native(copies), `shown-${++copied}`);
    writeFileSync(real, content, { flag: 'wx', mode: 0o644 });
    return pinPath({ source: real, target: inside });
  };
  const pinMount = (mount: Mount): PinnedPath => {
    if (kernelFolders.some((folder) => isInside(mount.source, folder) || isInside(mount.target, folder))) {
      throw new Error(`A sandbox has its own version of this path: ${mount.target}`);
    }
    const pinned = pinPath(mount);
    held.push(pinned);
    return pinned;
  };
  try {
    const entries = dropRedundantMounts(wanted, hasSystem).map(({ mount, writable }) => ({
      pinned: pinMount(mount),
      writable,
    }));
    const own = homes.map(
      (mount) => entries.find(({ pinned }) => pinned.target === mount.target)?.pinned ?? pinMount(mount),
    );
    const open = entries.flatMap(({ pinned, writable }) => (writable && !own.includes(pinned) ? [pinned] : []));
    const guards = confinement.frozen ? [] : [...own, ...open].filter(({ stats }) => stats.isDirectory());
    for (const folder of guards) {
      const found = await protectConfigFiles(folder, writeCopy);
      held.push(...found.kept, ...found.readOnly);
      placeholders.push(...found.placeholders);
      kept.push(...found.kept);
      readOnly.push(...found.readOnly);
      mountPoints.push(...found.mountPoints);
      folders.push(...found.folders);
    }
    readOnly.push(...(confinement.frozen ?? []).map(pinMount));
    const masks = findMasks([...(confinement.masked ?? []), ...findMachineCredentials()], entries, hasSystem);
    const empty = masks.map(({ inside }) => writeCopy(Buffer.alloc(0), inside));
    held.push(...empty);
    mountPoints.push(...masks.map(({ mark }) => mark));
    const isMasked = ({ target }: PinnedPath) => masks.some((mask) => mask.inside === target);
    return {
      entries,
      links: findMissingLinks(server.links, entries),
      guarded: { kept, readOnly: [...readOnly.filter((each) => !isMasked(each)), ...empty] },
      watched: { mountPoints, folders },
      release: () => releasePins(held),
      removePlaceholders: () => releasePlaceholders(placeholders),
    };
  } catch (error) {
    releasePins(held);
    releasePlaceholders(placeholders);
    throw error;
  }
}

interface MaskedFile {
  readonly inside: string;
  readonly mark: MountMark;
}

/** Finds the masked files that would be visible. A file that the operator mounts by its own path stays visible. */
function findMasks(files: readonly string[], entries: readonly PinnedMount[], hasSystem: boolean): MaskedFile[] {
  const inEntries = entries.flatMap(({ pinned }) =>
    files.flatMap((real) => {
      if (real === pinned.source || !isInside(real, pinned.source)) return [];
      const path = real.slice(pinned.source.length).replace(/^\//, '');
      const stats = statChild(pinned, path);
      return stats?.isFile() ? [{ inside: join(pinned.target, path), mark: markMountPoint(real, stats) }] : [];
    }),
  );
  const isNamed = (real: string) => entries.some(({ pinned }) => pinned.source === real);
  const inSystem = files.flatMap((real) => {
    const stats = hasSystem && isSystemPath(real) && !isNamed(real) ? statIfReadable(real) : undefined;
    return stats?.isFile() ? [{ inside: real, mark: markMountPoint(real, stats) }] : [];
  });
  return [...new Map([...inSystem, ...inEntries].map((mask) => [mask.inside, mask])).values()];
}

/** Returns all mounts, each after the one it lies in. */
export function mountsInOrder({ entries, guarded }: Pick<Mounts, 'entries' | 'guarded'>): PinnedMount[] {
  const all = [
    ...entries,
    ...guarded.kept.map((pinned) => ({ pinned, writable: true })),
    ...guarded.readOnly.map((pinned) => ({ pinned, writable: false })),
  ];
  const depth = ({ pinned }: PinnedMount) => pinned.target.split('/').length;
  return all.sort((one, other) => depth(one) - depth(other));
}

/** Drops links that lie in a mounted folder: they are there already. */
function findMissingLinks(links: readonly LinkCopy[], entries: Mounts['entries']): LinkCopy[] {
  const unique = new Map(links.map((link) => [link.inside, link]));
  return [...unique.values()].filter(({ inside }) => !entries.some(({ pinned }) => isInside(inside, pinned.target)));
}

/** Drops mounts that lie in another one and grant no more than it does. */
function dropRedundantMounts(wanted: readonly WantedMount[], hasSystem: boolean): WantedMount[] {
  const entries = [...wanted].sort((one, other) => depthOf(one) - depthOf(other) || rank(one) - rank(other));
  const kept: WantedMount[] = [];
  for (const candidate of entries) {
    const above = kept.findLast(({ mount }) => isInside(candidate.mount.target, mount.target));
    const given =
      above !== undefined
        ? isReachedThrough(above, candidate) && (above.writable || !candidate.writable)
        : hasSystem && !candidate.writable && isSystemPath(candidate.mount.target);
    if (!given) kept.push(candidate);
  }
  return kept;
}

const rank = ({ writable }: WantedMount): number => (writable ? 0 : 1);
const depthOf = ({ mount }: WantedMount): number => mount.target.split('/').length;

/** A link inside a mounted folder leads to the right target by itself, and nothing can be mounted on it. */
function isReachedThrough(above: WantedMount, { mount }: WantedMount): boolean {
  const direct = above.mount.source + mount.target.slice(above.mount.target.length);
  return direct === mount.source || mount.target !== mount.source;
}
