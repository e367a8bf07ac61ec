import { type Pinned, pinWithin } from './pinned.ts';

/**
 * What a person or a trusted program later runs, or takes orders from, without being asked. A sandboxed server may read
 * these, but must not leave orders there.
 */
export const guardedNames = [
  '.mcp.json',
  '.claude',
  '.codex',
  '.cursor',
  '.gemini',
  '.vscode',
  '.idea',
  '.devcontainer',
  '.husky',
  '.githooks',
  '.gitconfig',
  '.gitmodules',
  '.pre-commit-config.yaml',
  '.envrc',
  '.npmrc',
  '.yarnrc.yml',
  '.ssh',
  '.bashrc',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zprofile',
  '.zshenv',
];
export const guardedInGit = ['hooks', 'config', 'info'];

export interface Guarded {
  /** Held in place, so that it cannot be moved away together with what is read-only in it. */
  readonly kept: readonly Pinned[];
  readonly readOnly: readonly Pinned[];
}

/** Those that are there. What is missing cannot be guarded without putting something in its place. */
export function executedLater(workspace: Pinned): Guarded {
  const present = (folder: Pinned, all: readonly string[]) => all.flatMap((name) => pinWithin(folder, name) ?? []);
  const readOnly = present(workspace, guardedNames);
  const git = pinWithin(workspace, '.git');
  if (git === undefined) return { kept: [], readOnly };
  // In a worktree it is a file that says where the repository lies.
  if (git.stats.isFile()) return { kept: [], readOnly: [...readOnly, git] };
  return { kept: [git], readOnly: [...readOnly, ...present(git, guardedInGit)] };
}
