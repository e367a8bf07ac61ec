import { AmbitError, isAmbitError } from '../../errors.ts';
import { goneBecause } from '../../sessions/gone-because.ts';
import type { Session } from '../../sessions/session.ts';
import { type Entrance, type House, ownContext } from './resolved-session.ts';

export interface StdioSessions {
  enter(server: object): Promise<Entrance>;
  /** Ends the sessions that were opened for this process: nobody else has a token of them. */
  close(): Promise<void>;
}

/**
 * Without Ambit, whoever started this process is who calls. The session is the one they named, or one that is opened
 * with the first call and stays for as long as the process does. There is one server to a pipe; where there are several
 * after all, each has its own: it may be a network that looks like a pipe.
 */
export function aloneOnStdio(house: Pick<House, 'sessions' | 'settings'>): StdioSessions {
  const own = new Set<string>();
  const ofServer = new WeakMap<object, () => Promise<Entrance>>();
  house.sessions.onEnded(({ id }, reason) => void (reason !== 'unloaded' && own.delete(id)));
  return {
    enter(server) {
      const enter = ofServer.get(server) ?? onPipe(house, own);
      ofServer.set(server, enter);
      return enter();
    },
    async close() {
      await Promise.all([...own].map((id) => house.sessions.end(id, 'closed').catch(() => false)));
    },
  };
}

function onPipe(
  { sessions, settings }: Pick<House, 'sessions' | 'settings'>,
  own: Set<string>,
): () => Promise<Entrance> {
  const { named, local } = settings;
  let opening: Promise<Session> | undefined;

  async function find(): Promise<Session> {
    const session = await namedOrNew();
    if (named.userId === undefined || named.userId === session.userId) return session;
    throw new AmbitError('UNAUTHENTICATED', { what: 'The session that was named is not one of AMBIT_USER_ID.' });
  }

  async function namedOrNew(): Promise<Session> {
    if (named.token !== undefined) {
      const session = await sessions.prove(named.token);
      if (named.id === undefined || named.id === session.id) return session;
      throw new AmbitError('UNAUTHENTICATED', { what: 'AMBIT_SESSION_TOKEN is not a token of AMBIT_SESSION_ID.' });
    }
    if (named.id === undefined) return open();
    for (;;) {
      const session = await sessions.load(named.id);
      if (session !== undefined) return session;
      const reason = await sessions.whyGone(named.id);
      if (reason !== undefined) throw goneBecause(reason);
      try {
        return await open(named.id);
      } catch (error) {
        // Another process with the same word in its environment was faster.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  async function open(id?: string): Promise<Session> {
    const { agentId, ...rest } = local;
    const draft = { ...rest, ...(agentId === undefined ? {} : { agentId }), ...(id === undefined ? {} : { id }) };
    const { session } = await sessions.create(draft);
    if (id === undefined) own.add(session.id);
    return session;
  }

  function current(): Promise<Session> {
    opening ??= find().catch((error: unknown) => {
      // Tried again with the next call: a store may come back.
      opening = undefined;
      throw error;
    });
    return opening;
  }

  async function enter(): Promise<Entrance> {
    const opened = current();
    const { id } = await opened;
    const session = sessions.get(id) ?? (await sessions.load(id));
    if (session === undefined) throw await gone(id, opened);
    return { session, counted: true, renews: false, reach: 'user', gone: () => gone(id, opened), context: ownContext };
  }

  /** What time has ended is told once, and the next call begins anew; what somebody has ended stays ended. */
  async function gone(id: string, opened: Promise<Session>): Promise<AmbitError> {
    const reason = await sessions.whyGone(id);
    const isNamed = (named.id ?? named.token) !== undefined;
    if (isNamed || (reason !== 'expired' && reason !== 'evicted')) return goneBecause(reason);
    // Another call may have begun the next one already.
    if (opening === opened) opening = undefined;
    return new AmbitError('SESSION_EXPIRED', { hint: 'Call again: a new session begins, without what this one kept.' });
  }

  return enter;
}
