/** Runs work, some at a time for each key, in order of arrival. */
export type ConcurrencyLimit = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Creates a limit of `maxParallel` works at a time for each key. */
export function createConcurrencyLimit(maxParallel: number): ConcurrencyLimit {
  const busy = new Map<string, { active: number; readonly waiting: (() => void)[] }>();
  return async (key, work) => {
    const slots = busy.get(key) ?? { active: 0, waiting: [] };
    busy.set(key, slots);
    if (slots.active < maxParallel) slots.active++;
    // A finished work passes its slot on.
    else await new Promise<void>((accept) => slots.waiting.push(accept));
    try {
      return await work();
    } finally {
      const next = slots.waiting.shift();
      if (next !== undefined) next();
      else if (--slots.active === 0) busy.delete(key);
    }
  };
}
