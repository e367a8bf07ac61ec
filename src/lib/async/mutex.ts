/** Creates a mutex. Calling it waits until the mutex is free and returns the function that releases it. */
export function createMutex(): () => Promise<() => void> {
  let last: Promise<void> = Promise.resolve();
  return async () => {
    const before = last;
    let end = () => {};
    last = new Promise((resolve) => {
      end = resolve;
    });
    await before;
    return end;
  };
}

/** Limits how many may run at once; the others wait in order. The returned function releases the slot. */
export function createConcurrencyLimit(maxConcurrent: number): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let running = 0;

  function release(): void {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }

  return async function acquire() {
    if (running >= maxConcurrent) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    return release;
  };
}

/**
 * Limits how many may run at once, over all keys. The keys that wait take turns. Returns the function that releases the
 * slot; undefined if this key has too many waiting.
 */
export function createFairLimit(maxRunning: number, maxWaiting: number) {
  const waiting = new Map<string, (() => void)[]>();
  let running = 0;

  function release(): void {
    const [first] = waiting;
    if (first === undefined) return void running--;
    const [key, queue] = first;
    const next = queue.shift();
    // Behind the others, which have their turn first.
    waiting.delete(key);
    if (queue.length > 0) waiting.set(key, queue);
    next?.();
  }

  return async function acquire(key: string): Promise<(() => void) | undefined> {
    if (running < maxRunning) {
      running++;
      return release;
    }
    const queue = waiting.get(key) ?? [];
    if (queue.length >= maxWaiting) return undefined;
    waiting.set(key, queue);
    await new Promise<void>((resolve) => queue.push(resolve));
    return release;
  };
}

/** Runs work exclusively for each key, in order; different keys do not wait for each other. */
export type KeyedMutex = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function createKeyedMutex(): KeyedMutex {
  const last = new Map<string, Promise<unknown>>();

  return function runExclusive(key, work) {
    const before = last.get(key);
    const result = before === undefined ? work() : before.then(work);
    const over = result
      .catch(() => {})
      .finally(() => {
        if (last.get(key) === over) last.delete(key);
      });
    last.set(key, over);
    return result;
  };
}
