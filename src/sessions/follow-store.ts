import type { SessionStore } from '../stores/store.ts';
import type { HeldSessions } from './held-sessions.ts';

/** What other processes do to sessions that are held here arrives here within a second. */
export function followStore(store: SessionStore, held: HeldSessions): () => void {
  /** Whatever it is now, it is asked for: a change names no content. */
  async function refresh(id: string): Promise<void> {
    held.doubt(id);
    try {
      const record = await store.get(id);
      if (record !== undefined) held.hold(record);
      else held.leave(id, (await store.remains(id))?.reason ?? 'unloaded');
    } catch {
      // The store is away: nothing is granted until it is back, and then it is asked first.
    }
  }

  return store.watch((change) => {
    if (change.kind === 'lost') {
      for (const { id } of held.all()) void refresh(id);
    } else if (change.kind === 'ended') {
      held.leave(change.id, change.reason);
    } else if (change.kind === 'changed') {
      const session = held.get(change.id);
      if (session !== undefined && session.version < change.version) void refresh(change.id);
    }
  });
}
