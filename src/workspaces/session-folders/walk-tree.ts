import { AmbitError } from '../../errors.ts';
import type { FileInfo } from '../saferoot/file-info.ts';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import { isTemporaryName } from '../saferoot/write-file.ts';

export interface TreeEntry {
  readonly path: string;
  readonly kind: 'file' | 'link' | 'folder';
  readonly facts: FileInfo;
}

export const maxTreeEntries = 500_000;

/**
 * Walks all entries of a folder, each folder before its content. Left out are devices, pipes, names that are not UTF-8,
 * entries that vanish meanwhile, and what `skip` names, with all that is in it. `onUnnamed` is called for each name that
 * is not UTF-8.
 */
export async function* walkTree(
  root: SafeRoot,
  skip: (path: string, isFolder: boolean) => boolean = () => false,
  onUnnamed: () => void = () => {},
): AsyncGenerator<TreeEntry> {
  let left = maxTreeEntries;
  const ahead = ['.'];
  for (let folder = ahead.pop(); folder !== undefined; folder = ahead.pop()) {
    const listed = await ignoreGone(root.list(folder, { limit: left }));
    if (listed?.more) throw tooManyError();
    for (const { name, kind, unrepresentable } of listed?.entries ?? []) {
      const path = folder === '.' ? name : `${folder}/${name}`;
      if (--left < 0) throw tooManyError();
      if (unrepresentable) onUnnamed();
      if (unrepresentable || kind === 'special' || isTemporaryName(name) || skip(path, kind === 'folder')) continue;
      const facts = await ignoreGone(root.stat(path, { link: true }));
      if (facts === undefined || facts.kind === 'special') continue;
      if (facts.kind === 'folder') ahead.push(path);
      yield { path, kind: facts.kind, facts };
    }
  }
}

const goneCodes: readonly string[] = ['FILE_NOT_FOUND', 'NOT_A_DIRECTORY', 'CHANGED', 'PATH_VIOLATION'];

/** Returns undefined where the entry is gone or replaced. */
export async function ignoreGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SafeRootError && goneCodes.includes(error.code)) return undefined;
    throw error;
  }
}

function tooManyError(): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what: `The folder contains more than ${maxTreeEntries} files and folders.`,
    hint: 'Use a smaller folder as the workspace, or "isolation: worktree", which leaves out files ignored by git.',
  });
}
