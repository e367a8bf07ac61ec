import type { SessionStore } from '../stores/store.ts';
import type { LoadedSessions } from './loaded-sessions.ts';

const retryMs = 500;

/** Applies to loaded sessions within a second what other processes change. */
export function followStore(store: SessionStore, held: LoadedSessions): () => void {
  /** Changed sessions that could not be read yet. */
  const unread = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  /** Reads the session again: a change in the feed has no content. */
  async function refresh(id: string): Promise<void> {
    held.withdrawGrants(id);
    try {
      const record = await store.get(id);
      if (record !== undefined) held.load(record);
      else held.unload(id, (await store.remains(id))?.reason ?? 'unloaded');
    } catch {
      // The store is away. Processes of an ended session must end without another call, so this is retried.
      unread.add(id);
      if (!stopped) timer ??= setTimeout(retryUnread, retryMs).unref();
    }
  }

  function retryUnread(): void {
    timer = undefined;
    const ids = [...unread].filter((id) => held.get(id) !== undefined);
    unread.clear();
    for (const id of ids) void refresh(id);
  }

  const stop = store.watch((change) => {
    if (change.kind === 'lost') {
      for (const { id } of held.all()) void refresh(id);
    } else if (change.kind === 'ended') {
      held.unload(change.id, change.reason);
    } else if (change.kind === 'changed') {
      const session = held.get(change.id);
      if (session !== undefined && session.version < change.version) void refresh(change.id);
    }
  });
  return () => {
    stopped = true;
    clearTimeout(timer);
    stop();
  };
}
