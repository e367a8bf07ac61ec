import { randomUUID } from 'node:crypto';
import type { ActingSession } from '../../rules/session-base.ts';
import { lowest } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';
import { frozen, type OwnContext } from '../sdk/context.ts';
import type { SessionState } from '../sdk/session-state.ts';

/** How far the credential of one call reaches; the session may reach less far. */
export type Ceiling = Pick<ActingSession, 'trustLevel' | 'permissions'>;

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
