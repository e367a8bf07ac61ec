import type { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SessionContext } from '../sdk/context.ts';
import type { SessionState } from '../sdk/session-state.ts';
import type { NamedSessions } from './named-session.ts';
import type { PrincipalOf } from './options.ts';
import type { Settings } from './settings.ts';

/** The session a call belongs to, and what its handler is told of it. */
export interface Entrance {
  readonly session: Session;
  /** Ambit counts the calls of its own sessions already. */
  readonly counted: boolean;
  /** When it is gone another one takes its place: whether the caller may go on is not decided by this server. */
  readonly renews: boolean;
  /** Which sessions the session tools show to this caller; undefined where Ambit offers its own. */
  readonly reach: 'user' | 'session' | undefined;
  /** What to say when it is gone, where there is more to say than that. */
  gone?(): Promise<AmbitError>;
  context(session: Session, state: SessionState): SessionContext;
}

/** What there is to find a session with. */
export interface House {
  readonly settings: Settings;
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly named: NamedSessions;
  readonly principal: PrincipalOf | undefined;
}
