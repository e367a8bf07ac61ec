/** An object in a `ShortLivedSet`. It is empty after its removal. */
export interface SetEntry<T> {
  value: T | undefined;
}

/**
 * A set of objects that come and go all the time, such as requests in progress. V8 replaces the table of a Set or Map
 * often when members come and go, and the old table keeps its members and points to the new one. Once such a table is in
 * the old generation, all that it reaches is copied there as well, until the next full garbage collection. This took a
 * tenth of the main thread of a busy gateway (decision 31). This set holds small entries that are emptied, so a table
 * reaches nothing large.
 */
export class ShortLivedSet<T> {
  readonly #entries = new Set<SetEntry<T>>();

  get size(): number {
    return this.#entries.size;
  }

  add(value: T): SetEntry<T> {
    const entry: SetEntry<T> = { value };
    this.#entries.add(entry);
    return entry;
  }

  /** Removes an entry of this set. Removing it twice does no harm. */
  remove(entry: SetEntry<T>): void {
    entry.value = undefined;
    this.#entries.delete(entry);
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const { value } of this.#entries) if (value !== undefined) yield value;
  }
}
