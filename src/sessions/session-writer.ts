import { AmbitError, isAmbitError } from '../errors.ts';
import type { SessionChange, SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import type { LoadedSessions } from './loaded-sessions.ts';
import { restrictionForChild } from './parent-bounds.ts';
import { restrictRecord } from './restrict.ts';
import type { Restriction, Session, SessionEndReason } from './session.ts';

type EndCause = Exclude<SessionEndReason, 'expired'>;

/** Changes and ends sessions in the store, together with their descendants. */
export interface SessionWriter {
  /** Reads, decides and writes until nobody else was faster. */
  change(id: string, decide: (session: Session) => SessionChange | undefined): Promise<Session>;
  /** Restricts a child and its descendants to the bounds of its parent. */
  restrictWithin(id: string, parent: Session): Promise<Session>;
  /** Restricts a session and its descendants: a child never has more than its parent. */
  restrict(id: string, restriction: Restriction): Promise<Session>;
  end(id: string, reason: EndCause): Promise<boolean>;
}

const maxAttempts = 16;

export function createSessionWriter(store: SessionStore, loaded: LoadedSessions): SessionWriter {
  async function change(id: string, decide: (session: Session) => SessionChange | undefined): Promise<Session> {
    const record = await store.get(id);
    let session = record === undefined ? undefined : loaded.loadForRequest(record);
    for (let tries = 0; tries < maxAttempts; tries++) {
      if (session === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      const wanted = decide(session);
      if (wanted === undefined) return session;
      const updated = await store.update(id, session.version, wanted);
      if (updated.outcome === 'updated') return loaded.load(updated.record);
      session = updated.outcome === 'stale' ? loaded.load(updated.record) : undefined;
    }
    throw new AmbitError('SESSION_STALE');
  }

  function restrictOne(id: string, wanted: (session: Session) => Restriction | undefined): Promise<Session> {
    return change(id, (session) => {
      const after = restrictRecord(session, wanted(session) ?? {});
      if (after === session) return undefined;
      const { trustLevel, ttlSeconds, servers = null, permissions } = after;
      const { origin } = session;
      if (origin === undefined) return { trustLevel, ttlSeconds, servers, permissions };
      const restricted = listRestricted(session, after);
      return { trustLevel, ttlSeconds, servers, permissions, origin: { ...origin, restricted } };
    });
  }

  /**
   * Restricts each generation before the next one is listed. A child that is opened after its parent was restricted is
   * opened within the new bounds, and one that was opened before is in the list.
   */
  async function restrictDescendants(session: Session): Promise<void> {
    const parents = [session];
    for (const parent of parents) {
      for (const { id } of await listChildren(store, parent)) {
        const child = await restrictOne(id, (each) => restrictionForChild(parent, each)).catch((error: unknown) => {
          // Gone meanwhile: then there is nothing to restrict.
          if (isAmbitError(error) && error.code === 'SESSION_NOT_FOUND') return undefined;
          throw error;
        });
        // The loop also visits the children that are added meanwhile.
        if (child !== undefined) parents.push(child);
      }
    }
  }

  /** Ends a descendant. It is loaded first, so that this process cleans up after it. */
  async function endOne(record: SessionRecord, reason: EndCause): Promise<void> {
    loaded.load(record);
    if (await store.end(record.id, reason)) loaded.unload(record.id, reason);
  }

  /** Ends the youngest generation first. If this is interrupted, no session is left whose parent is gone. */
  async function endDescendants(record: SessionRecord, reason: EndCause): Promise<readonly SessionRecord[]> {
    const descendants = await findDescendants(store, record);
    for (const each of descendants.toReversed()) await endOne(each, reason);
    return descendants;
  }

  /** Ends the children that were opened below these sessions before they ended. Nobody can open more. */
  async function endStragglers(ended: readonly SessionRecord[], reason: EndCause): Promise<void> {
    const parents = [...ended];
    for (const parent of parents) {
      for (const child of await listChildren(store, parent)) {
        await endOne(child, reason);
        parents.push(child);
      }
    }
  }

  return {
    change,

    async restrictWithin(id, parent) {
      const session = await restrictOne(id, (each) => restrictionForChild(parent, each));
      await restrictDescendants(session);
      return session;
    },

    async restrict(id, restriction) {
      const session = await restrictOne(id, () => restriction);
      await restrictDescendants(session);
      return session;
    },

    async end(id, reason) {
      const record = await store.get(id);
      if (record === undefined) return false;
      loaded.load(record);
      const descendants = await endDescendants(record, reason);
      const ended = await store.end(id, reason);
      try {
        await endStragglers([record, ...descendants], reason);
      } finally {
        if (ended) loaded.unload(id, reason);
        // Another process ended it, and the feed has not said so yet.
        else if (loaded.get(id) !== undefined) loaded.unload(id, (await store.remains(id))?.reason ?? 'unloaded');
      }
      return ended;
    },
  };
}

/** Lists the members that this restriction, or an earlier one, has changed. */
function listRestricted(before: Session, after: Session): string[] {
  const changed = (['trustLevel', 'ttlSeconds', 'servers', 'permissions'] as const).filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  return [...new Set([...(before.origin?.restricted ?? []), ...changed])];
}

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
    for (const record of await listChildren(store, { id: parentId, userId })) {
      if (known.has(record.id)) continue;
      // The loop also visits entries that are added to the set meanwhile.
      known.add(record.id);
      found.push(record);
    }
  }
  return found;
}

/** Lists the live children of a session, which may have ended itself. */
async function listChildren(
  store: SessionStore,
  { id: parentId, userId }: Pick<SessionRecord, 'id' | 'userId'>,
): Promise<SessionRecord[]> {
  const children: SessionRecord[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page = await store.list({ userId, parentId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
    children.push(...page.sessions);
    after = page.next;
  }
  return children;
}
