import { type AmbitError, isAmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import type { CheckedDraft, Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';

/** A name that is no id nor the beginning of one, so that it finds nothing else. */
export type FixedName = `${string}:${string}`;

export interface NamedSessions {
  /** The one that is known here already. */
  known(userId: string, name: FixedName): Session | undefined;
  /**
   * The one live session of this user with that name, opened when there is none: a promise only when the store has to
   * be asked. However many ask at once, in however many processes, they get the same one.
   */
  of(draft: CheckedDraft & { readonly name: FixedName }, makesRoom?: boolean): Session | Promise<Session>;
}

export function createNamedSessions(sessions: Sessions, store: SessionStore): NamedSessions {
  const known = new Map<string, string>();
  const keys = new Map<string, string>();
  const asking = new Map<string, Promise<Session>>();

  sessions.onEnded(({ id }) => {
    const key = keys.get(id);
    if (key !== undefined) known.delete(key);
    keys.delete(id);
  });

  async function findOrOpen(draft: CheckedDraft & { readonly name: FixedName }, makesRoom: boolean): Promise<Session> {
    const { name, userId } = draft;
    for (;;) {
      const found = await sessions.find(name, { userId });
      const session = found === undefined ? undefined : sessions.get(found.id);
      if (session !== undefined) return session;
      try {
        return (await sessions.create(draft)).session;
      } catch (error) {
        if (!isAmbitError(error)) throw error;
        if (error.code === 'SESSION_LIMIT' && makesRoom) await endIdlest(draft, error);
        else if (error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  /** A user's own sessions of that kind make room for that user's next one, nobody else's. */
  async function endIdlest({ userId, name }: { userId: string; name: FixedName }, full: AmbitError): Promise<void> {
    const kind = name.slice(0, name.indexOf(':') + 1);
    const { sessions: all } = await sessions.list({ userId }, { limit: 1000 });
    const idlest = all.filter((each) => each.name?.startsWith(kind)).sort((a, b) => a.lastActiveAt - b.lastActiveAt);
    for (const { id } of idlest) {
      if ((await store.usage(id))?.underWay === 0 && (await sessions.end(id, 'evicted'))) return;
    }
    throw full;
  }

  function heldAs(key: string): Session | undefined {
    const id = known.get(key);
    return id === undefined ? undefined : sessions.get(id);
  }

  return {
    known: (userId, name) => heldAs(keyOf(userId, name)),

    of(draft, makesRoom = false) {
      const key = keyOf(draft.userId, draft.name);
      const held = heldAs(key);
      if (held !== undefined) return held;
      const answer =
        asking.get(key) ??
        findOrOpen(draft, makesRoom)
          .then((session) => {
            known.set(key, session.id);
            keys.set(session.id, key);
            return session;
          })
          .finally(() => asking.delete(key));
      asking.set(key, answer);
      return answer;
    },
  };
}

function keyOf(userId: string, name: FixedName): string {
  return JSON.stringify([userId, name]);
}
