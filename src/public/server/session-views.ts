import type { ActingSession } from '../../rules/session-base.ts';
import { type Session, type SessionView, viewOf } from '../../sessions/session.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { isGatewaySession, toPublicId } from './gateway-sessions.ts';

/** A session as listeners see it, with the same id that handlers see. */
export interface SessionFacts extends ActingSession {}

export function toSessionFacts(session: Session): SessionFacts {
  const { userId, agentId, workspaceId, trustLevel, permissions } = session;
  return { id: toPublicId(session), userId, agentId, workspaceId, trustLevel, permissions };
}

export function toPublicView(record: SessionRecord): SessionView {
  const view = viewOf(record);
  const named = { id: view.id, name: view.name ?? undefined };
  return { ...view, id: toPublicId(named), name: isGatewaySession(named) ? null : view.name };
}
