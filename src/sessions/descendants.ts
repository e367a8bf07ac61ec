import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';

/**
 * The live sessions that a session opened, those that they opened, and so on; parents before children. Only sessions of
 * the same user count. One that outlived its parent counts for none.
 */
export async function findDescendants(
  store: SessionStore,
  { id, userId }: Pick<SessionRecord, 'id' | 'userId'>,
): Promise<SessionRecord[]> {
  const found: SessionRecord[] = [];
  const known = new Set([id]);
  for (const parentId of known) {
    let after: string | undefined;
    do {
      const page = await store.list({ userId, parentId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const record of page.sessions) {
        if (known.has(record.id)) continue;
        // The loop also visits entries that are added to the set meanwhile.
        known.add(record.id);
        found.push(record);
      }
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
  return found;
}
