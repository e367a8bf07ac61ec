export interface Listeners<A extends unknown[]> {
  add(listener: (...given: A) => void): () => void;
  tell(...given: A): void;
}

export function createListeners<A extends unknown[]>(): Listeners<A> {
  const all = new Set<(...given: A) => void>();
  return {
    add(listener) {
      const own = (...given: A) => listener(...given);
      all.add(own);
      return () => void all.delete(own);
    },
    tell(...given) {
      for (const listener of [...all]) {
        try {
          listener(...given);
        } catch (error) {
          // A listener's fault is its author's to see, and must not cost a call its answer.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
  };
}
