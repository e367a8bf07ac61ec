import { isRepository } from './assert-no-repository.ts';
import { assertAccess } from './check-access.ts';
import type { Handle } from './platform/platform-fs.ts';
import { readNames, stepIfPresent } from './read-names.ts';
import { countChanges, folderKey } from './recent-changes.ts';
import type { RootFolder } from './root-folder.ts';
import { SafeRootError } from './saferoot-error.ts';
import { createYielder } from './time-slice.ts';
import { isTemporaryName } from './write-file.ts';

export interface SurveyOptions {
  /** The paths of the tree, before and after the operation. Access to every entry is checked by each. */
  readonly paths: readonly (readonly string[])[];
  readonly maxEntries: number;
  readonly onSingleMount: boolean;
}

/** The result of a survey, with the time it began. */
export interface TreeSurvey {
  readonly entries: number;
  readonly folders: ReadonlySet<string>;
  readonly since: number;
}

export const maxTreeDepth = 128;

/** Checks access to a whole tree before anything is done to it, yielding to others. */
export async function surveyTree(folder: RootFolder, node: Handle, options: SurveyOptions): Promise<TreeSurvey> {
  const [folders, since] = [new Set<string>(), countChanges()];
  const yieldIfDue = createYielder();
  let entries = 0;
  for (const step of listSurveySteps(folder, node, options, folders)) {
    if (step === 'entry') entries++;
    else await step;
    const pause = yieldIfDue();
    if (pause !== undefined) await pause;
  }
  return { entries, folders, since };
}

/** Surveys without a pause, so that nothing in this process can change meanwhile. */
export function surveyTreeAtOnce(folder: RootFolder, node: Handle, options: SurveyOptions): void {
  for (const _ of listSurveySteps(folder, node, options));
}

/** An entry that was found, or a promise to wait for. */
type SurveyStep = 'entry' | Promise<void>;

function* listSurveySteps(
  folder: RootFolder,
  tree: Handle,
  { paths, maxEntries, onSingleMount }: SurveyOptions,
  folders?: Set<string>,
): Generator<SurveyStep> {
  let entriesLeft = maxEntries;
  yield* surveyFolder(tree, paths, 1);

  function* surveyFolder(node: Handle, paths: readonly (readonly string[])[], depth: number): Generator<SurveyStep> {
    if (depth > maxTreeDepth) throw new SafeRootError('TOO_DEEP');
    folders?.add(folderKey(node));
    for (const path of paths) {
      const ready = folder.prepare?.(path);
      if (ready !== undefined) yield ready;
    }
    if (isRepository(node))
      for (const path of paths) assertAccess(folder.checkAccess, 'write', [...path, '.git'], 'folder');
    for (const { name, kind } of readNames(node)) {
      if (--entriesLeft < 0) throw new SafeRootError('TOO_MANY_ENTRIES');
      yield 'entry';
      const text = name.toString();
      const childPaths = paths.map((path) => [...path, text]);
      // Temporary files of running or killed writes go along.
      if (!isTemporaryName(text)) for (const way of childPaths) assertAccess(folder.checkAccess, 'write', way, kind);
      // Some file systems do not return the kind with the name.
      if (kind !== 'folder' && kind !== 'special') continue;
      const child = stepIfPresent(folder, node, name);
      if (child === undefined) continue;
      try {
        if (!child.stats.isDirectory()) continue;
        if (onSingleMount && !folder.fs.isSameMount(child, node)) {
          throw new SafeRootError('OTHER_DEVICE', { what: 'contains another mount' });
        }
        yield* surveyFolder(child, childPaths, depth + 1);
      } finally {
        folder.fs.release(child);
      }
    }
  }
}
