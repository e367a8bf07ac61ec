/** An object in a `ShortLivedSet`. It is empty after its removal. */
export interface SetEntry<T> {
  value: T | undefined;
}

/**
 * A set of objects that come and go all the time, such as requests in progress. V8 replaces the table of a Set or Map
 * often when members come and go, and the old table keeps its members and points to the new one. Once such a table is in
 * the old generation, all that it reaches is copied there as well, until the next full garbage collection: a third of the
 * processor time of a busy gateway. This set holds small entries that are emptied, so a table reaches nothing large.
 */
export interface ShortLivedSet<T> {
  add(value: T): SetEntry<T>;
  /** Removes an entry of this set. Removing it twice does no harm. */
  remove(entry: SetEntry<T>): void;
  readonly size: number;
  [Symbol.iterator](): Iterator<T>;
}

export function createShortLivedSet<T>(): ShortLivedSet<T> {
  const entries = new Set<SetEntry<T>>();
  return {
    add(value) {
      const entry: SetEntry<T> = { value };
      entries.add(entry);
      return entry;
    },
    remove(entry) {
      entry.value = undefined;
      entries.delete(entry);
    },
    get size() {
      return entries.size;
    },
    *[Symbol.iterator]() {
      for (const { value } of entries) if (value !== undefined) yield value;
    },
  };
}
