import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';

/**
 * The live sessions that this one opened, those that they opened, and so on; parents before children. Only those of
 * the same user: whoever else's they are, they are not this one's to look after. One that outlived its parent stands
 * by itself.
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
        // A set that grows while it is walked is walked to its new end.
        known.add(record.id);
        found.push(record);
      }
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
  return found;
}
