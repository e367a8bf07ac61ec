import type { SessionStore } from '../stores/store.ts';
import type { LoadedSessions } from './loaded-sessions.ts';

const retryMs = 500;

/** Applies to loaded sessions within a second what other processes change. */
export function followStore(store: SessionStore, loaded: LoadedSessions): () => void {
  /** Changed sessions that could not be read yet. */
  const unread = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  /** Reads the session again: a change in the feed has no content. */
  async function refresh(id: string): Promise<void> {
    loaded.withdrawGrants(id);
    try {
      const record = await store.get(id);
      if (record !== undefined) loaded.load(record);
      else loaded.unload(id, (await store.remains(id))?.reason ?? 'unloaded');
    } catch {
      // The store is away. Processes of an ended session must end without another call, so this is retried.
      unread.add(id);
      if (!stopped) timer ??= setTimeout(retryUnread, retryMs).unref();
    }
  }

  function retryUnread(): void {
    timer = undefined;
    const ids = [...unread].filter((id) => loaded.get(id) !== undefined);
    unread.clear();
    for (const id of ids) void refresh(id);
  }

  const stop = store.watch((change) => {
    if (change.kind === 'lost') {
      for (const { id } of loaded.all()) void refresh(id);
    } else if (change.kind === 'ended') {
      loaded.unload(change.id, change.reason);
    } else if (change.kind === 'changed') {
      const session = loaded.get(change.id);
      if (session !== undefined && session.version < change.version) void refresh(change.id);
    }
  });
  return () => {
    stopped = true;
    clearTimeout(timer);
    stop();
  };
}
