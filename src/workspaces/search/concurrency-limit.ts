/** Does the work when it is its turn: of one key so many at a time, the others in the order in which they came. */
export type InTurn = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** `most` is how many of one key are at work at the same time. */
export function createTurns(most: number): InTurn {
  const busy = new Map<string, { atWork: number; readonly waiting: (() => void)[] }>();
  return async (key, work) => {
    const turns = busy.get(key) ?? { atWork: 0, waiting: [] };
    busy.set(key, turns);
    if (turns.atWork < most) turns.atWork++;
    // Whoever finishes hands on its turn.
    else await new Promise<void>((accept) => turns.waiting.push(accept));
    try {
      return await work();
    } finally {
      const next = turns.waiting.shift();
      if (next !== undefined) next();
      else if (--turns.atWork === 0) busy.delete(key);
    }
  };
}
