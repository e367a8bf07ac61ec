import { type Message, readMessage } from '../../protocol/message.ts';
import { inWorkspace } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionMarks } from '../../stores/state.ts';
import { type Caller, type Callers, parseCallerSlot } from '../../upstreams/links/caller.ts';
import type { Link } from '../../upstreams/links/link.ts';

/**
 * Stores handshake-era clients with their session. After a restart, or in another process on the same store, a client
 * continues without a new handshake. There are as many slots as a session may have clients; a new client may replace
 * one that is unknown here.
 */
export interface TransportStore {
  /** Saves a client. A client that cannot be saved has to repeat the handshake after a restart. */
  save(caller: Caller): Promise<void>;
  /** Restores the client that this session had under this id. */
  restore(session: Session, transportId: string): Promise<Caller | undefined>;
  delete(caller: Caller): Promise<void>;
  /** Finds the user's session that has stored a client under this id. A user has few sessions. */
  findSession(userId: string, transportId: string): Promise<string | undefined>;
}

interface TransportStoreOptions {
  readonly marks: SessionMarks;
  readonly callers: Callers;
  readonly sessions: Sessions;
  /** Creates a link for a client that is not connected. */
  linkFor(session: Session, server: string, initialize: Message): Link;
  /** Called for a client that will not come back, so that other data about it can be removed. */
  onForgotten?(sessionId: string, transportId: string): Promise<void>;
}

interface StoredTransport {
  readonly id: string;
  readonly server: string;
  readonly version: string;
  readonly workspaceId?: string | undefined;
  readonly unavailableWorkspace?: string | undefined;
  readonly initialize: string;
}

const maxMarkBytes = 4096;

export function createTransportStore(options: TransportStoreOptions): TransportStore {
  const { marks, callers, sessions } = options;
  const restoring = new Map<string, Promise<Caller | undefined>>();

  async function readTransport(sessionId: string, transportId: string): Promise<StoredTransport | undefined> {
    const key = markKey(transportId);
    const text = key === undefined ? undefined : await marks.get(sessionId, key);
    const found = text === undefined ? undefined : (JSON.parse(text) as StoredTransport);
    return found?.id === transportId ? found : undefined;
  }

  async function reopenTransport(session: Session, transportId: string): Promise<Caller | undefined> {
    const found = await readTransport(session.id, transportId);
    // If the session has ended meanwhile, nobody would end the restored client.
    const live = found === undefined ? undefined : (sessions.get(session.id) ?? (await sessions.load(session.id)));
    if (found === undefined || live === undefined || sessions.get(session.id) === undefined) return undefined;
    const { id, server, version, workspaceId, unavailableWorkspace } = found;
    const initialize = readMessage(Buffer.from(found.initialize));
    const elsewhere = workspaceId !== undefined && live.workspaceId === undefined;
    const link = options.linkFor(elsewhere ? inWorkspace(live, workspaceId) : live, server, initialize);
    const place = { sessionId: live.id, workspaceId, unavailableWorkspace };
    return callers.open({ id, ...place, server, version, link, initialize });
  }

  return {
    async save(caller) {
      const { id, sessionId, server, version, workspaceId, unavailableWorkspace } = caller;
      const initialize = caller.initialize.bytes.toString('utf8');
      const text: StoredTransport = { id, server, version, workspaceId, unavailableWorkspace, initialize };
      const value = JSON.stringify(text);
      const key = markKey(id);
      if (key === undefined || Buffer.byteLength(value) > maxMarkBytes) return;
      try {
        const put = await marks.put(sessionId, key, value);
        if (put.outcome !== 'present') return;
        await options.onForgotten?.(sessionId, (JSON.parse(put.value) as StoredTransport).id);
        await marks.delete(sessionId, key);
        await marks.put(sessionId, key, value);
      } catch {
        // The store is not available; the next call reports it.
      }
    },

    restore(session, transportId) {
      const asked = `${session.id} ${transportId}`;
      const known = restoring.get(asked);
      if (known !== undefined) return known;
      const opening = reopenTransport(session, transportId).finally(() => restoring.delete(asked));
      restoring.set(asked, opening);
      return opening;
    },

    async findSession(userId, transportId) {
      if (markKey(transportId) === undefined) return undefined;
      for (let after: string | null | undefined; after !== null; ) {
        const page = await sessions.list({ userId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
        const had = await Promise.all(page.sessions.map(({ id }) => readTransport(id, transportId)));
        const at = had.findIndex((found) => found !== undefined);
        if (at !== -1) return page.sessions[at]?.id;
        after = page.next;
      }
      return undefined;
    },

    async delete({ id, sessionId }) {
      const key = markKey(id);
      if (key !== undefined && (await readTransport(sessionId, id)) !== undefined) await marks.delete(sessionId, key);
      await options.onForgotten?.(sessionId, id);
    },
  };
}

function markKey(transportId: string): string | undefined {
  const seat = parseCallerSlot(transportId);
  return seat === undefined ? undefined : `transport:${seat}`;
}
