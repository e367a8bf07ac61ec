import { randomUUID } from 'node:crypto';
import type { AmbitError } from '../../errors.ts';
import { lowest } from '../../rules/bounds.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import { frozen, type OwnContext, type SessionContext } from '../sdk/context.ts';
import type { SessionState } from '../sdk/session-state.ts';
import type { NamedSessions } from './named-sessions.ts';
import type { PrincipalOf, Settings } from './options.ts';

/** How far the credential of one call reaches; the session may reach less far. */
type Ceiling = Pick<ActingSession, 'trustLevel' | 'permissions'>;

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

/** What a handler is told of a session of the server's own. */
export function ownContext(session: Session, state: SessionState, ceiling: Ceiling = session): OwnContext {
  return frozen<OwnContext>(
    {
      status: 'own',
      sessionId: session.id,
      correlationId: randomUUID(),
      userId: session.userId,
      agentId: session.agentId,
      workspaceId: session.workspaceId,
      workspacePath: undefined,
      trustLevel: lowest([session.trustLevel, ceiling.trustLevel]),
      permissions: session.permissions.filter((each) => ceiling.permissions.includes(each)),
      issuedAt: undefined,
      expiresAt: undefined,
      reason: undefined,
      code: undefined,
    },
    state,
  );
}
