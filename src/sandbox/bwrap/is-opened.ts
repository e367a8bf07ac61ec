import type { Pinned } from './pinned.ts';

/** Whether something that is guarded may be written all the same, by itself or with all that is in it. */
export function isOpened({ guard }: Pick<Pinned, 'guard'>, names: readonly string[]): boolean {
  const mayWrite = guard?.mayWrite;
  return mayWrite !== undefined && (mayWrite(names) || mayWrite([...names, 'any']));
}
