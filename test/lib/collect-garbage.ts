import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;

/** Runs V8's garbage collection: of the young generation, or of everything. */
export function collectGarbage(type?: 'minor'): void {
  collect(type === undefined ? undefined : { type });
}

/** Returns the megabytes that the work leaves in memory. */
export function measureKeptMb(work: () => unknown): number {
  collectTwice();
  const before = process.memoryUsage();
  const result = work();
  collectTwice();
  const after = process.memoryUsage();
  // What the work returns counts.
  if (result === undefined) throw new Error('the work must return what it keeps');
  return (after.heapUsed + after.external - before.heapUsed - before.external) / (1 << 20);
}

/** A thread frees the buffers that a collection has found. The next collection waits for it. */
function collectTwice(): void {
  collectGarbage();
  collectGarbage();
}
