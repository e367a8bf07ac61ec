import type { SessionStore } from './store.ts';
import { closedStore } from './unavailable.ts';

/**
 * The same store, which refuses everything once `close` was called. Arguments that are refused before the store is
 * asked become rejections too: whoever awaits sees one kind of failure.
 */
export function refusingWhenClosed(store: SessionStore): SessionStore {
  let closing: Promise<void> | undefined;

  function guard<T extends object>(part: T): T {
    const guarded = Object.entries(part).map(([name, member]) => [
      name,
      typeof member !== 'function'
        ? member
        : async (...given: unknown[]) => {
            if (closing !== undefined) throw closedStore();
            return member(...given);
          },
    ]);
    return Object.fromEntries(guarded) as T;
  }

  return {
    ...guard(store),
    state: guard(store.state),
    marks: guard(store.marks),
    documents: guard(store.documents),
    watch: store.watch,
    close() {
      closing ??= store.close();
      return closing;
    },
  };
}
