import { type Message, readMessage } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import { inWorkspace } from '../../sessions/session-views.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionMarks } from '../../stores/state.ts';
import { type Caller, type Callers, seatOf } from '../../upstreams/links/caller.ts';
import type { Link } from '../../upstreams/links/link.ts';

/**
 * Handshake-era clients, written down beside their session: after a restart, or in another process on the same store,
 * a client goes on without shaking hands again. There are as many places as a session may have clients; whoever comes
 * later may take the place of one nobody here knows.
 */
export interface RememberedTransports {
  /** Resolves when it is written. A client that cannot be remembered has to shake hands again. */
  remember(caller: Caller): Promise<void>;
  /** Opens the client that this very session had under this id, if it is written down. */
  recall(session: Session, transportId: string): Promise<Caller | undefined>;
  forget(caller: Caller): Promise<void>;
  /** Which session of this user has a client under this id written down. A user has few, so they are looked through. */
  whose(userId: string, transportId: string): Promise<string | undefined>;
}

export interface RememberOptions {
  readonly marks: SessionMarks;
  readonly callers: Callers;
  readonly sessions: Sessions;
  /** A link for a client that is known but not connected. */
  linkFor(session: Session, server: string, initialize: Message): Link;
  /** One that will not come back: what else is written about it can go. */
  forgotten?(sessionId: string, transportId: string): Promise<void>;
}

interface Written {
  readonly id: string;
  readonly server: string;
  readonly version: string;
  readonly workspaceId?: string;
  readonly initialize: string;
}

const longestMark = 4096;

export function createRememberedTransports(options: RememberOptions): RememberedTransports {
  const { marks, callers, sessions } = options;
  const recalling = new Map<string, Promise<Caller | undefined>>();

  async function written(sessionId: string, transportId: string): Promise<Written | undefined> {
    const key = keyOf(transportId);
    const text = key === undefined ? undefined : await marks.get(sessionId, key);
    const found = text === undefined ? undefined : (JSON.parse(text) as Written);
    return found?.id === transportId ? found : undefined;
  }

  async function reopen(session: Session, transportId: string): Promise<Caller | undefined> {
    const found = await written(session.id, transportId);
    // The session may have gone meanwhile, and nobody would end what is opened for it then.
    const live = found === undefined ? undefined : (sessions.get(session.id) ?? (await sessions.load(session.id)));
    if (found === undefined || live === undefined || sessions.get(session.id) === undefined) return undefined;
    const { id, server, version, workspaceId } = found;
    const initialize = readMessage(Buffer.from(found.initialize));
    const elsewhere = workspaceId !== undefined && live.workspaceId === undefined;
    const link = options.linkFor(elsewhere ? inWorkspace(live, workspaceId) : live, server, initialize);
    return callers.open({ id, sessionId: live.id, server, version, workspaceId, link, initialize });
  }

  return {
    async remember(caller) {
      const { id, sessionId, server, version, workspaceId } = caller;
      const own = workspaceId === undefined ? {} : { workspaceId };
      const text: Written = { id, server, version, ...own, initialize: caller.initialize.bytes.toString('utf8') };
      const value = JSON.stringify(text);
      const key = keyOf(id);
      if (key === undefined || Buffer.byteLength(value) > longestMark) return;
      try {
        const put = await marks.put(sessionId, key, value);
        if (put.outcome !== 'present') return;
        await options.forgotten?.(sessionId, (JSON.parse(put.value) as Written).id);
        await marks.delete(sessionId, key);
        await marks.put(sessionId, key, value);
      } catch {
        // The store is away; the next call will say so.
      }
    },

    recall(session, transportId) {
      const asked = `${session.id} ${transportId}`;
      const known = recalling.get(asked);
      if (known !== undefined) return known;
      const opening = reopen(session, transportId).finally(() => recalling.delete(asked));
      recalling.set(asked, opening);
      return opening;
    },

    async whose(userId, transportId) {
      if (keyOf(transportId) === undefined) return undefined;
      for (let after: string | null | undefined; after !== null; ) {
        const page = await sessions.list({ userId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
        const had = await Promise.all(page.sessions.map(({ id }) => written(id, transportId)));
        const at = had.findIndex((found) => found !== undefined);
        if (at !== -1) return page.sessions[at]?.id;
        after = page.next;
      }
      return undefined;
    },

    async forget({ id, sessionId }) {
      const key = keyOf(id);
      if (key !== undefined && (await written(sessionId, id)) !== undefined) await marks.delete(sessionId, key);
      await options.forgotten?.(sessionId, id);
    },
  };
}

function keyOf(transportId: string): string | undefined {
  const seat = seatOf(transportId);
  return seat === undefined ? undefined : `transport:${seat}`;
}
