import { AmbitError } from '../errors.ts';
import type { AccessCeiling, Principal } from '../identity/principal.ts';
import type { Log } from '../observability/log/log.ts';
import { isTrustAtMost, type TrustLevel } from '../rules/trust-level.ts';
import { inWorkspace, withUnavailableWorkspace } from './narrowed-sessions.ts';
import type { Session } from './session.ts';

/** The workspaces that a client or a tool can name. */
export interface WorkspaceNames {
  /** The workspaces that a slug or an absolute path means. Paths are compared as text, so that nobody learns which files exist. */
  findIds(name: string): readonly string[];
  /** The highest trust level of sessions in a workspace. */
  trustOf(id: string): TrustLevel;
  /** Slugs to suggest, sorted. */
  list(): readonly string[];
}

/** The session after its client has announced a workspace. */
export interface AnnouncedChoice {
  readonly session: Session;
  /** `ignored` if the session stays in another workspace, `unavailable` if it may not use the announced one. */
  readonly outcome: 'used' | 'ignored' | 'unavailable';
}

/** The longest part of a name from outside that errors and logs show. */
export const maxShownLength = 100;

/** The workspaces that the credential of a caller is limited to; null if it has no such limit. */
export function limitOf(principal: Principal | undefined): readonly string[] | null {
  return principal?.kind === 'user' ? principal.ceiling.workspaces : null;
}

/**
 * Puts a session into the workspace that its client announces. The client chooses among the workspaces that the session
 * may use. A workspace that the orchestrator or the credential has set stays, whatever the client says. A session that
 * may not use the announced one works in none: whatever the client meant, it did not mean another workspace.
 */
export function applyAnnounced(
  names: WorkspaceNames,
  session: Session,
  asked: string,
  limit: readonly string[] | null = null,
): AnnouncedChoice {
  const allowed = findAllowedWorkspace(names, session, asked, limit);
  const { workspaceId } = session;
  if (workspaceId !== undefined && (limit === null || allowed !== undefined))
    return { session, outcome: allowed === workspaceId ? 'used' : 'ignored' };
  if (allowed === undefined) {
    return { session: withUnavailableWorkspace(session, asked.slice(0, maxShownLength)), outcome: 'unavailable' };
  }
  return { session: inWorkspace(session, allowed), outcome: 'used' };
}

/** Finds the workspace that a name means, if the session may use it. */
export function findAllowedWorkspace(
  names: WorkspaceNames,
  session: Session,
  name: string,
  limit: readonly string[] | null = null,
): string | undefined {
  return names.findIds(name).find((id) => isUsableWorkspace(names, session, id, limit));
}

/** Tells whether a session may work in a workspace. `limit` is the limit of the caller's credential. */
export function isUsableWorkspace(
  names: WorkspaceNames,
  session: Session,
  id: string,
  limit: readonly string[] | null,
): boolean {
  return (limit === null || limit.includes(id)) && isTrustAtMost(session.trustLevel, names.trustOf(id));
}

/**
 * Chooses the workspace of a new session. A credential that is limited to some workspaces gets the announced one, or the
 * first. Other sessions have no workspace and may be used in each.
 */
export function chooseForCredential(
  { workspaces: allowed, directIn }: Pick<AccessCeiling, 'workspaces' | 'directIn'>,
  asked: string | undefined,
  names: WorkspaceNames,
): string | undefined {
  const meant = names.findIds(asked ?? '');
  // The session must be in the workspace where the credential allows more trust.
  if (allowed === null) return meant.find((id) => directIn?.includes(id));
  // If the announced one is not available, `applyAnnounced` keeps the session from working in the first.
  return meant.find((id) => allowed.includes(id)) ?? allowed[0];
}

/** The error is the same for a forbidden and for a missing workspace. */
export function workspaceNotFoundError(name: string): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `No workspace "${name.slice(0, maxShownLength)}" is available to this session.`,
    hint: 'Announce the slug or the absolute path of a workspace that this session may use, or announce none.',
  });
}

const maxLoggedNames = 16;

/** Creates a function that logs each ignored workspace once per session, because clients repeat it with each call. */
export function createIgnoredWorkspaceLog(log: Log): (session: Session, asked: string) => void {
  const loggedNames = new WeakMap<Session, Set<string>>();
  return function logIgnoredWorkspaceOnce(session, asked) {
    const announced = asked.slice(0, maxShownLength);
    const known = loggedNames.get(session) ?? new Set();
    loggedNames.set(session, known);
    if (known.has(announced) || known.size >= maxLoggedNames) return;
    known.add(announced);
    log.info('announced workspace ignored', { session: session.id, announced, workspace: session.workspaceId });
  };
}
