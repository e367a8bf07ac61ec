import type { TokenPermissions } from '../identity/principal.ts';
import type { Session } from './session.ts';

const viewsByPermissions = new WeakMap<Session, Map<string, Session>>();

/** Tokens of one user come with few sets of scopes; whoever varies them without end only loses what is remembered. */
const maxViews = 16;

const viewsByWorkspace = new WeakMap<Session, Map<string, Session>>();

/**
 * The session as it stands in a workspace that its client has selected. The same record and workspace give the same
 * object, so that whatever is remembered by identity holds for it too.
 */
export function inWorkspace(session: Session, workspaceId: string): Session {
  if (session.workspaceId === workspaceId) return session;
  let ofSession = viewsByWorkspace.get(session);
  if (ofSession === undefined) {
    ofSession = new Map();
    viewsByWorkspace.set(session, ofSession);
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

/**
 * The session as it is for a request with this token: of the permissions that scopes decide about it has those that
 * the token brings and no others, whatever an earlier token brought. The same record and permissions give the same
 * object, so that whatever is remembered by identity holds for it too.
 */
export function asTokenSays(session: Session, byToken: TokenPermissions): Session {
  const { brought, governed } = byToken;
  if (session.byToken?.governed === governed && session.byToken.brought.join() === brought.join()) return session;
  let ofSession = viewsByPermissions.get(session);
  if (ofSession === undefined || ofSession.size >= maxViews) {
    ofSession = new Map();
    viewsByPermissions.set(session, ofSession);
  }
  const key = brought.join();
  const known = ofSession.get(key);
  if (known?.byToken?.governed === governed) return known;
  const permissions = Object.freeze(applyTokenPermissions(session.permissions, byToken));
  const view = Object.freeze({ ...session, permissions, byToken });
  ofSession.set(key, view);
  return view;
}

/** What of a session's permissions holds for a request with this token, and what the token brings beside. */
export function applyTokenPermissions(held: readonly string[], byToken: TokenPermissions | undefined): string[] {
  if (byToken === undefined) return [...held];
  return [...held.filter((name) => !Object.hasOwn(byToken.governed, name)), ...byToken.brought];
}
