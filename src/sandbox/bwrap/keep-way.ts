import type { Collector } from './guard/collect-guarded.ts';
import type { Pinned } from './pinned.ts';
import { unavailable } from './remedy.ts';

/** Holds each folder on a way in its place. Undefined where one is missing or is no folder. */
export function keepAll(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  let here: Pinned | undefined = top;
  for (const name of names) here = here && collector.keep(here, name);
  return here;
}

/** Makes something read-only as a whole, and holds what leads there in its place. */
export function lockWhole(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  const above = keepAll(top, names.slice(0, -1), collector);
  return above === undefined || names.length === 0 ? undefined : collector.readOnly(above, names.at(-1) as string);
}

/** Makes the folder around a link read-only as a whole: nothing can be mounted upon the link itself. */
export function lockAround(top: Pinned, names: readonly string[], collector: Collector): void {
  if (names.length > 1) {
    lockWhole(top, names.slice(0, -1), collector);
    return;
  }
  throw unavailable(
    'a link at the top of a folder that may be written has the place of a repository, and cannot be guarded',
    'Look at "git submodule status" and "git status" there, and put a folder in the place of the link.',
  );
}
