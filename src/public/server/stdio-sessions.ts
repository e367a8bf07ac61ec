import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { createOwnContext, type ResolvedSession, type SessionLayer } from './resolved-session.ts';

export interface StdioSessions {
  resolve(server: object): Promise<ResolvedSession>;
  /** Ends the sessions that were opened for this process: nobody else has a token of them. */
  close(): Promise<void>;
}

/**
 * Sessions over stdio without Ambit: the caller is whoever started this process. The session is the one they named, or
 * one that opens with the first call and lasts as long as the process. There is normally one server to a pipe. Several
 * servers get a session each, because such a pipe may be a network in disguise.
 */
export function stdioSessions(layer: Pick<SessionLayer, 'sessions' | 'settings'>): StdioSessions {
  const openedHere = new Set<string>();
  const resolvers = new WeakMap<object, () => Promise<ResolvedSession>>();
  layer.sessions.onEnded(({ id }, reason) => void (reason !== 'unloaded' && openedHere.delete(id)));
  return {
    resolve(server) {
      const resolve = resolvers.get(server) ?? createPipeResolver(layer, openedHere);
      resolvers.set(server, resolve);
      return resolve();
    },
    async close() {
      await Promise.all([...openedHere].map((id) => layer.sessions.end(id, 'closed').catch(() => false)));
    },
  };
}

function createPipeResolver(
  { sessions, settings }: Pick<SessionLayer, 'sessions' | 'settings'>,
  openedHere: Set<string>,
): () => Promise<ResolvedSession> {
  const { named, local } = settings;
  let opening: Promise<Session> | undefined;

  async function findSession(): Promise<Session> {
    const session = await findNamedOrCreate();
    if (named.userId === undefined || named.userId === session.userId) return session;
    throw new AmbitError('UNAUTHENTICATED', { what: 'The session does not belong to AMBIT_USER_ID.' });
  }

  async function findNamedOrCreate(): Promise<Session> {
    if (named.token !== undefined) {
      const session = await sessions.verifyToken(named.token);
      if (named.id === undefined || named.id === session.id) return session;
      throw new AmbitError('UNAUTHENTICATED', { what: 'AMBIT_SESSION_TOKEN is not a token of AMBIT_SESSION_ID.' });
    }
    if (named.id === undefined) return createSession();
    for (;;) {
      const session = await sessions.load(named.id);
      if (session !== undefined) return session;
      const reason = await sessions.whyGone(named.id);
      if (reason !== undefined) throw sessionGoneError(reason);
      try {
        return await createSession(named.id);
      } catch (error) {
        // Another process with the same id in its environment was faster.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  async function createSession(id?: string): Promise<Session> {
    const { agentId, ...rest } = local;
    const draft = { ...rest, ...(agentId === undefined ? {} : { agentId }), ...(id === undefined ? {} : { id }) };
    const { session } = await sessions.create(draft);
    if (id === undefined) openedHere.add(session.id);
    return session;
  }

  function openOnce(): Promise<Session> {
    opening ??= findSession().catch((error: unknown) => {
      // Tried again with the next call: a store may come back.
      opening = undefined;
      throw error;
    });
    return opening;
  }

  /** An expired session is reported once, and the next call opens another. A session that was ended stays ended. */
  async function explainGone(id: string, opened: Promise<Session>): Promise<AmbitError> {
    const reason = await sessions.whyGone(id);
    const isNamed = (named.id ?? named.token) !== undefined;
    if (isNamed || (reason !== 'expired' && reason !== 'evicted')) return sessionGoneError(reason);
    // Another call may have opened the next one already.
    if (opening === opened) opening = undefined;
    return new AmbitError('SESSION_EXPIRED', {
      hint: 'Call again to start a new session, without the state of this one.',
    });
  }

  return async () => {
    const opened = openOnce();
    const { id } = await opened;
    const session = sessions.get(id) ?? (await sessions.load(id));
    if (session === undefined) throw await explainGone(id, opened);
    return {
      session,
      isCounted: true,
      isRenewable: false,
      toolScope: 'user',
      explainGone: () => explainGone(id, opened),
      createContext: createOwnContext,
    };
  };
}
