import type { Config } from '../config/schema.ts';
import { isAmbitError } from '../errors.ts';
import type { Log } from '../log.ts';
import { openSession } from '../sessions/open-session.ts';
import type { Session } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';

interface User {
  readonly userId: string;
}

/** Sessions of those who are not bound to one. */
export interface SessionsOfUsers {
  openFor(user: User): Promise<Session>;
  /** The one session of a user who names none. Kept by name: found again after a restart, and by every process here. */
  defaultFor(user: User): Promise<Session>;
}

const defaultName = 'default';

export function createSessionsOfUsers(sessions: Sessions, config: () => Config, log: Log): SessionsOfUsers {
  async function open({ userId }: User, named: { readonly name?: string }): Promise<Session> {
    log.warn('session opened for nobody in particular', { user: userId });
    return (await openSession(sessions, config(), { userId, trustLevel: 'sandboxed', ...named })).session;
  }

  return {
    openFor: (user) => open(user, {}),
    async defaultFor(user) {
      for (;;) {
        const found = await sessions.find(defaultName, { userId: user.userId });
        const session = found === undefined ? undefined : sessions.get(found.id);
        if (session !== undefined) return session;
        try {
          return await open(user, { name: defaultName });
        } catch (error) {
          // Somebody else was faster: theirs is found in the next round.
          if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
        }
      }
    },
  };
}
