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
