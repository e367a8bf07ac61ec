/** Long enough that yielding costs little, and too short for others to notice. */
const maxSliceMs = 4;
const maxPieces = 256;
const waitingWork: (() => void)[] = [];

/** Called after each small piece of long work. When it returns a promise, the work waits for it. */
export type Yielder = () => Promise<void> | undefined;

/** Makes long work yield to others after some time or some number of pieces. */
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

/** Resumes one waiting work per tick of the event loop, however many there are. */
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

/** Runs work with the same owner one after the other, so that what the first has recorded holds until it is done. */
export function runExclusively<T>(owner: object, work: () => Promise<T>): Promise<T> {
  const result = (lastWork.get(owner) ?? Promise.resolve()).then(work);
  lastWork.set(
    owner,
    result.catch(() => {}),
  );
  return result;
}
