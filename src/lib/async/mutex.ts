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
