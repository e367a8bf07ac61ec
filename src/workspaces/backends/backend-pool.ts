import type { WorkspaceBackend } from './backend.ts';

/** Backends that are open, each for whoever needs it just now, and a little longer. */
export interface KeptOpen {
  use<T>(
    key: string,
    open: () => Promise<WorkspaceBackend>,
    work: (backend: WorkspaceBackend) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

interface Kept {
  readonly backend: Promise<WorkspaceBackend>;
  users: number;
  leaving: NodeJS.Timeout | undefined;
}

const idleMs = 60_000;

export function createKeptOpen(): KeptOpen {
  const kept = new Map<string, Kept>();
  const closing = new Set<Promise<void>>();

  function take(key: string, open: () => Promise<WorkspaceBackend>): Kept {
    const there = kept.get(key);
    if (there !== undefined) {
      clearTimeout(there.leaving);
      there.users++;
      return there;
    }
    const fresh: Kept = { backend: open(), users: 1, leaving: undefined };
    kept.set(key, fresh);
    // The next one tries anew.
    fresh.backend.catch(() => forget(key, fresh));
    return fresh;
  }

  function forget(key: string, each: Kept): void {
    if (kept.get(key) === each) kept.delete(key);
  }

  /** A folder that was taken away and made anew is another one, whatever its path. */
  async function takeCurrent(key: string, open: () => Promise<WorkspaceBackend>): Promise<Kept> {
    const each = take(key, open);
    const backend = await each.backend.catch(() => undefined);
    if (backend?.isElsewhere?.() !== true) return each;
    forget(key, each);
    leave(key, each);
    return take(key, open);
  }

  function leave(key: string, each: Kept): void {
    if (--each.users > 0) return;
    if (kept.get(key) !== each) {
      closeLater(each);
      return;
    }
    each.leaving = setTimeout(() => {
      forget(key, each);
      closeLater(each);
    }, idleMs);
    each.leaving.unref();
  }

  function closeLater(each: Kept): void {
    const closed = each.backend
      .then((backend) => backend.close())
      .catch(() => {})
      .finally(() => closing.delete(closed));
    closing.add(closed);
  }

  return {
    async use(key, open, work) {
      const each = await takeCurrent(key, open);
      try {
        return await work(await each.backend);
      } finally {
        leave(key, each);
      }
    },

    async close() {
      for (const each of kept.values()) {
        clearTimeout(each.leaving);
        closeLater(each);
      }
      kept.clear();
      await Promise.all(closing);
    },
  };
}
