/** Work of one kind after the other for each key; keys do not wait for each other. */
export type OneAtATime = <T>(key: string, work: () => Promise<T>) => Promise<T>;
/** Waits for its turn, and answers with what ends it. */
export function createTurns(): () => Promise<() => void> {
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

export function createOneAtATime(): OneAtATime {
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
