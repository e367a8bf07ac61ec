import { guardedNames } from '../../guarded-names.ts';
import { type Pinned, pinWithin } from './pinned.ts';

export const guardedInGit = ['hooks', 'config', 'info'];

export interface Guarded {
  /** Held in place, so that it cannot be moved away together with what is read-only in it. */
  readonly kept: readonly Pinned[];
  readonly readOnly: readonly Pinned[];
}

/** Those of the guarded names that are there. What is missing cannot be guarded without putting something in its place. */
export function executedLater(workspace: Pinned): Guarded {
  const present = (folder: Pinned, all: readonly string[]) => all.flatMap((name) => pinWithin(folder, name) ?? []);
  const readOnly = present(workspace, guardedNames);
  const git = pinWithin(workspace, '.git');
  if (git === undefined) return { kept: [], readOnly };
  // In a worktree it is a file that says where the repository lies.
  if (git.stats.isFile()) return { kept: [], readOnly: [...readOnly, git] };
  return { kept: [git], readOnly: [...readOnly, ...present(git, guardedInGit)] };
}
