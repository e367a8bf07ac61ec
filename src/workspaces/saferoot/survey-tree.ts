import { isRepository } from './assert-no-repository.ts';
import { assertAdmitted } from './check-access.ts';
import type { Handle } from './platform/platform-fs.ts';
import { namesIn, stepIfThere } from './read-names.ts';
import { changesSoFar, folderKey } from './recent-changes.ts';
import type { Folder } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { isTemporaryName } from './temporary-file.ts';
import { createPace } from './time-slice.ts';

export interface SurveyOptions {
  /** The names that lead to the tree, now and after what is to be done: what lies in it must be admitted by each. */
  readonly ways: readonly (readonly string[])[];
  /** More is refused. */
  readonly maxEntries: number;
  /** A tree that holds another mount is refused. */
  readonly oneMount: boolean;
}

/** What a tree was seen to hold, and when. */
export interface Surveyed {
  readonly entries: number;
  /** Each folder that was looked into. */
  readonly folders: ReadonlySet<string>;
  readonly since: number;
}

export const maxTreeDepth = 128;

/** Looks through a whole tree before anything is done to it. Others get their turn in between. */
export async function surveyed(folder: Folder, node: Handle, options: SurveyOptions): Promise<Surveyed> {
  const [folders, since] = [new Set<string>(), changesSoFar()];
  const pace = createPace();
  let entries = 0;
  for (const step of survey(folder, node, options, folders)) {
    if (step === 'entry') entries++;
    else await step;
    const pause = pace();
    if (pause !== undefined) await pause;
  }
  return { entries, folders, since };
}

/** The same without a pause, so that nothing in this process can change meanwhile. */
export function surveyedAtOnce(folder: Folder, node: Handle, options: SurveyOptions): void {
  for (const _ of survey(folder, node, options));
}

/** An entry that was found, or what is waited for by whoever can wait. */
type Step = 'entry' | Promise<void>;

function* survey(
  folder: Folder,
  tree: Handle,
  { ways, maxEntries, oneMount }: SurveyOptions,
  folders?: Set<string>,
): Generator<Step> {
  let left = maxEntries;
  yield* below(tree, ways, 1);

  function* below(node: Handle, here: readonly (readonly string[])[], depth: number): Generator<Step> {
    if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
    folders?.add(folderKey(node));
    for (const way of here) {
      const ready = folder.prepare?.(way);
      if (ready !== undefined) yield ready;
    }
    if (isRepository(node)) for (const way of here) assertAdmitted(folder.admit, 'write', [...way, '.git'], 'folder');
    for (const { name, kind } of namesIn(node)) {
      if (--left < 0) throw new SafeRootError('TOO_MANY_ENTRIES');
      yield 'entry';
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
