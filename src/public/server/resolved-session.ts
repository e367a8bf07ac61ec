import { randomUUID } from 'node:crypto';
import type { AmbitError } from '../../errors.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import { findLowestTrust } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import { freezeContext, type OwnContext, type SessionContext } from '../sdk/context.ts';
import type { SessionState } from '../sdk/session-state.ts';
import type { NamedSessions } from './named-sessions.ts';
import type { PrincipalOf } from './options.ts';
import type { ServerSettings } from './settings.ts';

/** The session a call belongs to, and how to describe it to the handler. */
export interface ResolvedSession {
  readonly session: Session;
  /** False for sessions of Ambit, which counts their calls itself. */
  readonly isCounted: boolean;
  /** Another session replaces it when it is gone: this server does not decide whether the caller may go on. */
  readonly isRenewable: boolean;
  /** The sessions that the session tools show to this caller; undefined behind Ambit, which offers its own tools. */
  readonly toolScope: 'user' | 'session' | undefined;
  /** The error to answer with when the session is gone, if there is a better one than the store's. */
  explainGone?(): Promise<AmbitError>;
  createContext(session: Session, state: SessionState): SessionContext;
}

export interface SessionLayer {
  readonly settings: ServerSettings;
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly namedSessions: NamedSessions;
  readonly principal: PrincipalOf | undefined;
}

/** The most that the credential of one call allows; the session may allow less. */
type CallBounds = Pick<ActingSession, 'trustLevel' | 'permissions'>;

/** Describes a session of the server's own to a handler. */
export function createOwnContext(session: Session, state: SessionState, bounds: CallBounds = session): OwnContext {
  return freezeContext<OwnContext>(
    {
      status: 'own',
      sessionId: session.id,
      correlationId: randomUUID(),
      userId: session.userId,
      agentId: session.agentId,
      workspaceId: session.workspaceId,
      workspacePath: undefined,
      trustLevel: findLowestTrust([session.trustLevel, bounds.trustLevel]),
      permissions: session.permissions.filter((each) => bounds.permissions.includes(each)),
      issuedAt: undefined,
      expiresAt: undefined,
      reason: undefined,
      code: undefined,
    },
    state,
  );
}
