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

/** The record that counts now, standing where an older one stands. A workspace of the record's own always holds. */
export function standingAs(record: Session, older: Session): Session {
  if (record.workspaceId !== undefined || older.workspaceId === undefined) return record;
  return inWorkspace(record, older.workspaceId);
}

/** Names a session where it stands: two workspaces of one session are two places. */
export function placeOf({ id, workspaceId }: Session): string {
  return workspaceId === undefined ? id : `${id}/${workspaceId}`;
}
