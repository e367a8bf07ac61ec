import { type AmbitError, isAmbitError } from '../../errors.ts';
import type { CheckedDraft, Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';

/** A name that cannot be an id nor the beginning of one, so that a search for it finds nothing else. */
export type ReservedName = `${string}:${string}`;

type NamedDraft = CheckedDraft & { readonly name: ReservedName };

export interface NamedSessions {
  /** The session, if this process has found it before. */
  get(userId: string, name: ReservedName): Session | undefined;
  /**
   * Finds the one live session of this user with that name, or creates it; a promise only if the store has to be asked.
   * All callers get the same session, also from several processes at once.
   */
  findOrCreate(draft: NamedDraft, evictsIdlest?: boolean): Session | Promise<Session>;
}

export function createNamedSessions(sessions: Sessions, store: SessionStore): NamedSessions {
  const idsByKey = new Map<string, string>();
  const keysById = new Map<string, string>();
  const pending = new Map<string, Promise<Session>>();

  sessions.onEnded(({ id }) => {
    const key = keysById.get(id);
    if (key !== undefined) idsByKey.delete(key);
    keysById.delete(id);
  });

  async function findOrCreate(draft: NamedDraft, evictsIdlest: boolean): Promise<Session> {
    const { name, userId } = draft;
    for (;;) {
      const found = await sessions.find(name, { userId });
      const session = found === undefined ? undefined : sessions.get(found.id);
      if (session !== undefined) return session;
      try {
        return (await sessions.create(draft)).session;
      } catch (error) {
        if (!isAmbitError(error)) throw error;
        if (error.code === 'SESSION_LIMIT' && evictsIdlest) await endIdlest(draft, error);
        else if (error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  /** Makes room for a user's next session of that kind by ending the idlest one of the same user. */
  async function endIdlest({ userId, name }: { userId: string; name: ReservedName }, full: AmbitError): Promise<void> {
    const kind = name.slice(0, name.indexOf(':') + 1);
    const { sessions: all } = await sessions.list({ userId }, { limit: 1000 });
    const idlest = all.filter((each) => each.name?.startsWith(kind)).sort((a, b) => a.lastActiveAt - b.lastActiveAt);
    for (const { id } of idlest) {
      if ((await store.usage(id))?.underWay === 0 && (await sessions.end(id, 'evicted'))) return;
    }
    throw full;
  }

  function findKnown(key: string): Session | undefined {
    const id = idsByKey.get(key);
    return id === undefined ? undefined : sessions.get(id);
  }

  return {
    get: (userId, name) => findKnown(toNameKey(userId, name)),

    findOrCreate(draft, evictsIdlest = false) {
      const key = toNameKey(draft.userId, draft.name);
      const known = findKnown(key);
      if (known !== undefined) return known;
      const answer =
        pending.get(key) ??
        findOrCreate(draft, evictsIdlest)
          .then((session) => {
            idsByKey.set(key, session.id);
            keysById.set(session.id, key);
            return session;
          })
          .finally(() => pending.delete(key));
      pending.set(key, answer);
      return answer;
    },
  };
}

function toNameKey(userId: string, name: ReservedName): string {
  return JSON.stringify([userId, name]);
}
