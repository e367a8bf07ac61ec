import type { ActingSession } from '../../rules/session-base.ts';
import type { EndReason, Session, SessionView } from '../../sessions/session.ts';
import { viewOf } from '../../sessions/session.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { isKeptForAmbit, knownId } from './gateway-sessions.ts';

/** What listeners are told of a session; the id is the one that handlers are told. */
export interface SessionFacts extends ActingSession {}

export type { EndReason, SessionView };

export function factsOf(session: Session): SessionFacts {
  const { userId, agentId, workspaceId, trustLevel, permissions } = session;
  return { id: knownId(session), userId, agentId, workspaceId, trustLevel, permissions };
}

export function shownRecord(record: SessionRecord): SessionView {
  const view = viewOf(record);
  const named = { id: view.id, name: view.name ?? undefined };
  return { ...view, id: knownId(named), name: isKeptForAmbit(named) ? null : view.name };
}
