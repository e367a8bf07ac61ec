import { asTokenSays } from './as-token-says.ts';
import type { Session } from './session.ts';

const views = new WeakMap<Session, Map<string, Session>>();

/**
 * The session as it stands in a workspace that its client has selected. The same record and workspace give the same
 * object, so that whatever is remembered by identity holds for it too.
 */
export function inWorkspace(session: Session, workspaceId: string): Session {
  if (session.workspaceId === workspaceId) return session;
  let ofSession = views.get(session);
  if (ofSession === undefined) {
    ofSession = new Map();
    views.set(session, ofSession);
  }
  const known = ofSession.get(workspaceId);
  if (known !== undefined) return known;
  const view = Object.freeze({ ...session, workspaceId });
  ofSession.set(workspaceId, view);
  return view;
}

/**
 * The record that counts now, standing where an older one stands and with what the same token brings. A workspace of
 * the record's own always holds.
 */
export function standingAs(record: Session, older: Session): Session {
  const seen = older.byToken === undefined ? record : asTokenSays(record, older.byToken);
  if (seen.workspaceId !== undefined || older.workspaceId === undefined) return seen;
  return inWorkspace(seen, older.workspaceId);
}

/** Names a session where it stands: two workspaces of one session are two places. */
export function placeOf({ id, workspaceId }: Session): string {
  return workspaceId === undefined ? id : `${id}/${workspaceId}`;
}
