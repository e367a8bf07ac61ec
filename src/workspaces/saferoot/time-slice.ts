/** Long enough for the wait in between to cost little, and too short for others to notice. */
const maxSliceMs = 4;
const maxPieces = 256;
const waitingWork: (() => void)[] = [];

/** To be asked after each small piece of long work. Where it answers with a promise, the work waits for it. */
export type Yielder = () => Promise<void> | undefined;

/** Long work gives way to others by the time it has taken, and the pieces it has done, since it last did. */
export function createYielder(): Yielder {
  let sliceStart = performance.now();
  let pieces = 0;
  return () => {
    if (++pieces < maxPieces && performance.now() - sliceStart < maxSliceMs) return undefined;
    return yieldToOthers().then(() => {
      sliceStart = performance.now();
      pieces = 0;
    });
  };
}

/** However many long works are under way, one of them goes on in each turn of the process. */
export function yieldToOthers(): Promise<void> {
  return new Promise((resolve) => {
    if (waitingWork.push(resolve) === 1) setImmediate(resumeNext);
  });
}

function resumeNext(): void {
  waitingWork.shift()?.();
  if (waitingWork.length > 0) setImmediate(resumeNext);
}

const lastWork = new WeakMap<object, Promise<unknown>>();

/** Work about one thing, one after the other: what is remembered for the first is still there until it is done. */
export function runExclusively<T>(owner: object, work: () => Promise<T>): Promise<T> {
  const result = (lastWork.get(owner) ?? Promise.resolve()).then(work);
  lastWork.set(
    owner,
    result.catch(() => {}),
  );
  return result;
}
