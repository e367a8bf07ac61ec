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
 * Limits how many may run at once, over all keys. The keys that wait take turns, and so do the parts of a key. Returns
 * the function that releases the slot; undefined if this key, or this part of it, has too many waiting.
 */
export function createFairLimit(maxRunning: number, maxWaiting: number, maxWaitingOfPart = maxWaiting) {
  const waiting = new Map<string, Map<string, (() => void)[]>>();
  let running = 0;

  function release(): void {
    const [first] = waiting;
    if (first === undefined) return void running--;
    const [key, parts] = first;
    const [part, queue] = parts.entries().next().value ?? ['', []];
    const next = queue.shift();
    moveBack(parts, part, queue, queue.length);
    moveBack(waiting, key, parts, parts.size);
    next?.();
  }

  return async function acquire(key: string, part = ''): Promise<(() => void) | undefined> {
    if (running < maxRunning) {
      running++;
      return release;
    }
    const parts = waiting.get(key) ?? new Map<string, (() => void)[]>();
    const queue = parts.get(part) ?? [];
    const ofKey = [...parts.values()].reduce((sum, { length }) => sum + length, 0);
    if (ofKey >= maxWaiting || queue.length >= maxWaitingOfPart) return undefined;
    waiting.set(key, parts.set(part, queue));
    await new Promise<void>((resolve) => queue.push(resolve));
    return release;
  };
}

/** Moves an entry behind the others, which have their turn first. One with nothing left is removed. */
function moveBack<Value>(entries: Map<string, Value>, key: string, value: Value, left: number): void {
  entries.delete(key);
  if (left > 0) entries.set(key, value);
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
