/** Long enough for the wait in between to cost little, and too short for others to notice. */
const longestSliceMs = 4;
const mostPieces = 256;
const waiting: (() => void)[] = [];

/** To be asked after each small piece of long work. Where it answers with a promise, the work waits for it. */
export type Pace = () => Promise<void> | undefined;

/** Long work gives way to others by the time it has taken, and the pieces it has done, since it last did. */
export function createPace(): Pace {
  let began = performance.now();
  let pieces = 0;
  return () => {
    if (++pieces < mostPieces && performance.now() - began < longestSliceMs) return undefined;
    return giveWay().then(() => {
      began = performance.now();
      pieces = 0;
    });
  };
}

/** However many long works are under way, one of them goes on in each turn of the process. */
export function giveWay(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(goOn);
  });
}

function goOn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(goOn);
}

const lastOf = new WeakMap<object, Promise<unknown>>();

/** Work about one thing, one after the other: what is remembered for the first is still there until it is done. */
export function oneAtATime<T>(about: object, work: () => Promise<T>): Promise<T> {
  const result = (lastOf.get(about) ?? Promise.resolve()).then(work);
  lastOf.set(
    about,
    result.catch(() => {}),
  );
  return result;
}
