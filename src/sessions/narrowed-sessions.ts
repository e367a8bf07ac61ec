import type { TokenPermissions } from '../identity/principal.ts';
import type { Session } from './session.ts';

const viewsByPermissions = new WeakMap<Session, Map<string, Session>>();

/** Tokens of one user have few sets of scopes. With more than these, views are created again. */
const maxViews = 16;
const viewsByWorkspace = new WeakMap<Session, Map<string, Session>>();

/**
 * The session in a workspace that its client has selected. The same record and workspace give the same object, so that
 * caches keyed by the object work.
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

/** The session for a client that announced a workspace which the session may not use. */
export function withUnavailableWorkspace(session: Session, announced: string): Session {
  return Object.freeze({ ...session, unavailableWorkspace: announced });
}

/**
 * The current record in the workspace of an older view and with the permissions of its token. A workspace of the record
 * itself has precedence. If the client announced a workspace that is not available, it is not available to this view
 * either.
 */
export function viewLike(record: Session, older: Session): Session {
  const seen = older.tokenPermissions === undefined ? record : withTokenPermissions(record, older.tokenPermissions);
  const { workspaceId = older.workspaceId } = seen;
  const view = workspaceId === undefined ? seen : inWorkspace(seen, workspaceId);
  const { unavailableWorkspace } = older;
  return unavailableWorkspace === undefined ? view : withUnavailableWorkspace(view, unavailableWorkspace);
}

/** A key for a session in a workspace: two workspaces of one session are two scopes. */
export function sessionScopeKey({ id, workspaceId }: Session): string {
  return workspaceId === undefined ? id : `${id}/${workspaceId}`;
}

/**
 * The session for a request with this token: of the permissions that scopes govern it has those of this token and no
 * others. The same record and permissions give the same object, so that caches keyed by the object work.
 */
export function withTokenPermissions(session: Session, byToken: TokenPermissions): Session {
  const { brought, governed } = byToken;
  if (session.tokenPermissions?.governed === governed && session.tokenPermissions.brought.join() === brought.join())
    return session;
  let ofSession = viewsByPermissions.get(session);
  if (ofSession === undefined || ofSession.size >= maxViews) {
    ofSession = new Map();
    viewsByPermissions.set(session, ofSession);
  }
  const key = brought.join();
  const known = ofSession.get(key);
  if (known?.tokenPermissions?.governed === governed) return known;
  const permissions = Object.freeze(applyTokenPermissions(session.permissions, byToken));
  const view = Object.freeze({ ...session, permissions, tokenPermissions: byToken });
  ofSession.set(key, view);
  return view;
}

/** The permissions of a session that scopes do not govern, and those that the token brings. */
export function applyTokenPermissions(permissions: readonly string[], byToken: TokenPermissions | undefined): string[] {
  if (byToken === undefined) return [...permissions];
  return [...permissions.filter((name) => !Object.hasOwn(byToken.governed, name)), ...byToken.brought];
}
