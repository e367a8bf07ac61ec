import type { Glob } from '../../lib/text/glob.ts';
import type { SessionFiles } from '../session-files.ts';
import { createBudget, type SearchBounds, type Stopped } from './bounds.ts';
import { below } from './ignore-levels.ts';
import { type WalkedEntry, walkFiles } from './walk-files.ts';

export interface FilesFound {
  /** Those that were changed last come first. */
  readonly files: readonly WalkedEntry[];
  /** How many there are, as far as was looked. */
  readonly total: number;
  /** Why there may be more. */
  readonly stopped: Stopped | 'limit' | undefined;
}

export interface FindQuery {
  /** Over paths relative to `path`. */
  readonly glob: Glob;
  readonly path: string;
  readonly limit: number;
}

/** Files and links whose paths fit. */
export async function findFiles(
  files: SessionFiles,
  { glob, path, limit }: FindQuery,
  bounds?: SearchBounds,
): Promise<FilesFound> {
  const budget = createBudget(bounds);
  const { path: start } = await files.stat(path);
  const enter = (folder: string) => glob.mayHold(below(start, folder));
  const found: WalkedEntry[] = [];
  for await (const entries of walkFiles(files, start, { budget, facts: true, enter })) {
    for (const entry of entries) {
      if ((entry.kind === 'file' || entry.kind === 'link') && glob.matches(below(start, entry.path))) found.push(entry);
    }
  }
  // What is equally new stays in the order of the walk.
  found.sort((one, other) => (other.modifiedMs ?? 0) - (one.modifiedMs ?? 0));
  return {
    files: found.slice(0, limit),
    total: found.length,
    stopped: budget.stopped ?? (found.length > limit ? 'limit' : undefined),
  };
}
