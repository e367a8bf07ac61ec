import { setImmediate as turn } from 'node:timers/promises';
import { assertAdmitted } from './admit.ts';
import { folderKey } from './changes.ts';
import type { Folder } from './folder.ts';
import type { Handle } from './ground.ts';
import { namesIn, stepIfThere } from './names-in.ts';
import { isRepository } from './repository-trap.ts';
import { SafeRootError } from './saferoot-error.ts';
import { isTemporaryName } from './temporary-file.ts';

export interface SurveyOptions {
  /** The names that lead to the tree, now and after what is to be done: what lies in it must be admitted by each. */
  readonly ways: readonly (readonly string[])[];
  /** More is refused. */
  readonly maxEntries: number;
  /** A tree that holds another mount is refused. */
  readonly oneMount: boolean;
  /** Told of each folder that was looked into. */
  readonly folders?: Set<string>;
}

export const maxTreeDepth = 128;
const entriesPerTurn = 256;

/** Looks through a whole tree before anything is done to it. Others get their turn in between. */
export async function surveyed(folder: Folder, node: Handle, options: SurveyOptions): Promise<number> {
  let count = 0;
  for (const _ of survey(folder, node, options)) if (++count % entriesPerTurn === 0) await turn();
  return count;
}

/** The same without a pause, so that nothing in this process can change meanwhile. */
export function surveyedAtOnce(folder: Folder, node: Handle, options: SurveyOptions): number {
  let count = 0;
  for (const _ of survey(folder, node, options)) count++;
  return count;
}

function* survey(
  folder: Folder,
  tree: Handle,
  { ways, maxEntries, oneMount, folders }: SurveyOptions,
): Generator<void> {
  let left = maxEntries;
  yield* below(tree, ways, 1);

  function* below(node: Handle, here: readonly (readonly string[])[], depth: number): Generator<void> {
    if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
    folders?.add(folderKey(node));
    if (isRepository(node)) for (const way of here) assertAdmitted(folder.admit, 'write', [...way, '.git'], 'folder');
    for (const { name, kind } of namesIn(node)) {
      if (--left < 0) throw new SafeRootError('TOO_MANY_ENTRIES');
      yield;
      const text = name.toString();
      const there = here.map((way) => [...way, text]);
      // What a write under way, or one that was killed, has beside its place is nobody's and goes along.
      if (!isTemporaryName(text)) for (const way of there) assertAdmitted(folder.admit, 'write', way, kind);
      // Some file systems do not tell the kind with the name.
      if (kind !== 'folder' && kind !== 'special') continue;
      const child = stepIfThere(folder, node, name);
      if (child === undefined) continue;
      try {
        if (!child.stats.isDirectory()) continue;
        if (oneMount && !folder.ground.onSameMount(child, node)) {
          throw new SafeRootError('OTHER_DEVICE', { what: 'holds another mount' });
        }
        yield* below(child, there, depth + 1);
      } finally {
        folder.ground.release(child);
      }
    }
  }
}
