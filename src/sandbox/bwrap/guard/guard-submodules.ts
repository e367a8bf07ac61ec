import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { gitFolderOf, gitFoldersOf, type OrdersSource, OrdersUnknown } from '../../../lib/git/configured-paths.ts';
import { readSubmodulesOfIndex } from '../../../lib/git/git-index.ts';
import { keepAll, lockAround, lockWhole } from '../keep-way.ts';
import { lookWithin, type Pinned, pinWithin, release } from '../pinned.ts';
import { type Ground, knowingOrders } from './guard-orders.ts';

const mostSubmodules = 500;
/** Of indexes, in all. One of 100,000 files has about 10 MiB. */
const mostIndexBytes = 256 * 1024 * 1024;

/** Guards the submodules of a repository. Returns those that are checked out, each by the names that lead there. */
export type GuardSubmodules = (workTree: string, gitFolder?: string) => Promise<string[][]>;

/**
 * Git goes into each submodule by itself, and takes whatever repository it finds there. So where one is missing still,
 * its folder is read-only as a whole. It counts what the index says, which git follows, and what `.gitmodules` says.
 */
export function createSubmoduleGuard(ground: Ground): GuardSubmodules {
  const { top, collector, source } = ground;
  let bytesLeft = mostIndexBytes;

  function spend(bytes: number): void {
    bytesLeft -= bytes;
    if (bytesLeft < 0) throw new OrdersUnknown('has, with other repositories, an index of more than 256 MiB');
  }

  /** Those of the names that lead from the top of the folder on. */
  function within(workTree: string, paths: readonly string[]): string[][] {
    const found = [...new Set(paths)].flatMap((path) => {
      const names = path.split('/').filter((name) => name !== '' && name !== '.');
      const place = [workTree, ...names].join('/');
      const isSound = names.length > 0 && !names.includes('..') && !names.includes('.git');
      return isSound && place.startsWith(`${top.real}/`) ? [place.slice(top.real.length + 1).split('/')] : [];
    });
    if (found.length > mostSubmodules) throw new OrdersUnknown(`names more than ${mostSubmodules} submodules`);
    return found;
  }

  return (workTree, gitFolder) =>
    knowingOrders(ground, workTree, async () => {
      const git = gitFolder ?? gitFolderOf(workTree, source.read);
      const hashBytes = hashBytesOf(git, source);
      const submodules = await readSubmodulesOfIndex({ gitFolder: git, hashBytes, spend });
      const named = source
        .settingsIn(join(workTree, '.gitmodules'))
        .flatMap(({ name, value }) => (name === 'submodule.path' ? [value] : []));
      return within(workTree, [...submodules, ...named]).filter((names) => {
        makeFolders(top, names);
        if (lookWithin(top, `${names.join('/')}/.git`) !== undefined && isReached(top, names)) return true;
        guardMissing(ground, names);
        return false;
      });
    });

  function isReached(from: Pinned, names: readonly string[]): boolean {
    return keepAll(from, names, collector) !== undefined;
  }
}

/**
 * What is not checked out must not come to be. The first on the way that is no folder stays what it is, and where nothing
 * is, the name is taken.
 */
function guardMissing({ top, collector }: Ground, names: readonly string[]): void {
  let here: Pinned = top;
  for (const [at, name] of names.entries()) {
    const found = lookWithin(here, name);
    const next = at < names.length - 1 && found?.isDirectory() ? collector.keep(here, name) : undefined;
    if (next === undefined) {
      const way = names.slice(0, at + 1);
      if (found === undefined) collector.occupy(here, name);
      else if (found.isSymbolicLink()) lockAround(top, way, collector);
      else lockWhole(top, way, collector);
      return;
    }
    here = next;
  }
}

/** As git itself makes them when it checks the repository out. */
function makeFolders(folder: Pinned, names: readonly string[]): void {
  const held: Pinned[] = [];
  try {
    let here = folder;
    for (const name of names) {
      if (lookWithin(here, name) === undefined) mkdirSync(`/proc/self/fd/${here.descriptor}/${name}`);
      const next = pinWithin(here, name);
      if (next === undefined || !next.stats.isDirectory()) return;
      held.push(next);
      here = next;
    }
  } catch {
    // Who may not make it here may not inside either.
  } finally {
    release(held);
  }
}

function hashBytesOf(gitFolder: string, source: OrdersSource): number {
  const settings = gitFoldersOf(gitFolder, source.read).flatMap((each) => source.settingsIn(join(each, 'config')));
  const format = settings.findLast(({ name }) => name === 'extensions.objectformat')?.value;
  return format?.toLowerCase() === 'sha256' ? 32 : 20;
}
