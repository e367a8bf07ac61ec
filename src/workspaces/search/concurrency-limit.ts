/** Does the work when it is its turn: of one key so many at a time, the others in the order in which they came. */
export type ConcurrencyLimit = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** `most` is how many of one key are at work at the same time. */
export function createConcurrencyLimit(maxParallel: number): ConcurrencyLimit {
  const busy = new Map<string, { active: number; readonly waiting: (() => void)[] }>();
  return async (key, work) => {
    const slots = busy.get(key) ?? { active: 0, waiting: [] };
    busy.set(key, slots);
    if (slots.active < maxParallel) slots.active++;
    // Whoever finishes hands on its turn.
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
