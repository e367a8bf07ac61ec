import type { WorkspaceBackend } from './backend.ts';

/** Open backends. Each closes a little after its last use. */
export interface BackendPool {
  use<T>(
    key: string,
    open: () => Promise<WorkspaceBackend>,
    work: (backend: WorkspaceBackend) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

interface PooledBackend {
  readonly backend: Promise<WorkspaceBackend>;
  users: number;
  idleTimer: NodeJS.Timeout | undefined;
}

const idleMs = 60_000;

export function createBackendPool(): BackendPool {
  const pooled = new Map<string, PooledBackend>();
  const closing = new Set<Promise<void>>();

  function acquire(key: string, open: () => Promise<WorkspaceBackend>): PooledBackend {
    const existing = pooled.get(key);
    if (existing !== undefined) {
      clearTimeout(existing.idleTimer);
      existing.users++;
      return existing;
    }
    const opened: PooledBackend = { backend: open(), users: 1, idleTimer: undefined };
    pooled.set(key, opened);
    // The next caller tries again.
    opened.backend.catch(() => forget(key, opened));
    return opened;
  }

  function forget(key: string, entry: PooledBackend): void {
    if (pooled.get(key) === entry) pooled.delete(key);
  }

  /** Reopens a backend whose folder was removed and made again: that is another folder, whatever its path. */
  async function acquireCurrent(key: string, open: () => Promise<WorkspaceBackend>): Promise<PooledBackend> {
    const entry = acquire(key, open);
    const backend = await entry.backend.catch(() => undefined);
    if (backend?.isElsewhere?.() !== true) return entry;
    forget(key, entry);
    release(key, entry);
    return acquire(key, open);
  }

  function release(key: string, entry: PooledBackend): void {
    if (--entry.users > 0) return;
    if (pooled.get(key) !== entry) {
      closeInBackground(entry);
      return;
    }
    entry.idleTimer = setTimeout(() => {
      forget(key, entry);
      closeInBackground(entry);
    }, idleMs);
    entry.idleTimer.unref();
  }

  function closeInBackground(entry: PooledBackend): void {
    const closed = entry.backend
      .then((backend) => backend.close())
      .catch(() => {})
      .finally(() => closing.delete(closed));
    closing.add(closed);
  }

  return {
    async use(key, open, work) {
      const entry = await acquireCurrent(key, open);
      try {
        return await work(await entry.backend);
      } finally {
        release(key, entry);
      }
    },

    async close() {
      for (const entry of pooled.values()) {
        clearTimeout(entry.idleTimer);
        closeInBackground(entry);
      }
      pooled.clear();
      await Promise.all(closing);
    },
  };
}
