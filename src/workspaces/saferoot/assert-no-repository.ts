import { type Dirent, lstatSync, opendirSync } from 'node:fs';
import { type CheckAccess, joinNames } from './check-access.ts';
import { type FileKind, kindFromStats } from './file-info.ts';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { SafeRootError, systemCode } from './saferoot-error.ts';
import type { RootFolder } from './walk-path.ts';

export interface RawName {
  readonly name: Buffer;
  readonly kind: FileKind;
}

/** Yields the names in a folder, in the order of the system. */
export function* readNames(handle: Handle): Generator<RawName> {
  if (!handle.stats.isDirectory()) throw new SafeRootError('NOT_A_DIRECTORY');
  // Node can read names as bytes; its types do not say so.
  const directory = opendirSync(handle.path, { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
  try {
    for (;;) {
      const entry = directory.readSync() as (Omit<Dirent, 'name'> & { readonly name: unknown }) | null;
      if (entry === null) return;
      yield { name: entry.name as Buffer, kind: kindFromStats(entry) };
    }
  } finally {
    directory.closeSync();
  }
}

export function stepIfPresent(folder: RootFolder, from: Handle, name: string | Buffer): Handle | undefined {
  try {
    return folder.fs.step(from, name);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** The names by which git takes any folder for a repository, and then runs what its `config` says. */
const headName = 'head';
const requiredParts: readonly (readonly string[])[] = [['commondir'], ['objects', 'refs']];
const partNames: ReadonlySet<string> = new Set([headName, ...requiredParts.flat()]);

/** The number of names that may still be read in all folders of one path, while everything else waits. */
export interface NamesBudget {
  left: number;
}

export const maxNamesRead = 5000;

/**
 * Refuses a change in a folder that is a repository or would become one, by the rules for `.git`. The folder is held,
 * and nothing may come between this check and the change.
 */
export function assertNoRepository(
  checkAccess: CheckAccess | undefined,
  folder: Handle,
  parentNames: readonly string[],
  name: string,
  budget: NamesBudget = { left: maxNamesRead },
): void {
  if (checkAccess === undefined) return;
  const reason = isRepository(folder)
    ? 'is part of a git repository, which sessions may not change'
    : isRepositoryPart(name)
      ? findPartRefusal(folder, name, budget)
      : undefined;
  if (reason === undefined || checkAccess('write', [...parentNames, '.git', name], undefined) === undefined) return;
  throw new SafeRootError('NOT_ADMITTED', { what: reason, resolved: joinNames([...parentNames, name]) });
}

/** Decides by names alone, since the content can be written later. */
export function isRepository(folder: Handle): boolean {
  const has = (name: string) => lstatSync(pathAt(folder, name), { throwIfNoEntry: false }) !== undefined;
  return has('HEAD') && requiredParts.some((names) => names.every(has));
}

/** Compares without case: a file system without case may come later. */
function findPartRefusal(folder: Handle, name: string, budget: NamesBudget): string | undefined {
  const present = new Set([normalizeName(name)]);
  for (const each of readNames(folder)) {
    if (--budget.left < 0)
      return 'has a name that is used in git repositories, and its folder has too many entries to check';
    const text = normalizeName(each.name.toString());
    if (partNames.has(text)) present.add(text);
  }
  const isWhole = present.has(headName) && requiredParts.some((names) => names.every((each) => present.has(each)));
  return isWhole
    ? 'would turn its folder into a git repository, and git would run commands configured there'
    : undefined;
}

const isRepositoryPart = (name: string): boolean => partNames.has(normalizeName(name));

/** Removes what some file systems, or git for their sake, ignore in a name. */
function normalizeName(name: string): string {
  return name
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toLowerCase()
    .replace(/:.*$/s, '')
    .replace(/(?<![. ])[. ]+$/, '');
}
