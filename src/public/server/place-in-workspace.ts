import { isAmbitError } from '../../errors.ts';
import { missingWorkspaceError, suggestWorkspaces } from '../../sessions/missing-workspace.ts';
import type { Session } from '../../sessions/session.ts';
import { applyAnnounced, findAllowedWorkspace } from '../../sessions/workspace-choice.ts';
import type { WorkspaceChoices } from '../sdk/current-session.ts';
import { requireWorkspace } from './declared-workspaces.ts';
import type { ResolvedSession } from './resolved-session.ts';
import type { OpenSessionLayer } from './session-layer.ts';

/** A session in the workspace of one call. */
export interface PlacedSession {
  readonly session: Session;
  readonly path: string | undefined;
  /** Tells the workspace apart from others, also from those with the same slug. */
  readonly workspaceKey: string | undefined;
  readonly choices: WorkspaceChoices;
}

/**
 * Puts a session into the workspace that its client announced. If it may not use that one, the call goes on without a
 * workspace, and tools that need one say so.
 */
export async function placeInWorkspace(
  layer: OpenSessionLayer,
  { workspaces: allowed, selectable = null, endsWithCall }: ResolvedSession,
  session: Session,
  announced: string | undefined,
): Promise<PlacedSession> {
  const set = await layer.findWorkspaces(session);
  const choice = announced === undefined ? undefined : applyAnnounced(set, session, announced, selectable);
  if (choice !== undefined && choice.outcome !== 'used' && !(choice.outcome === 'unavailable' && endsWithCall))
    layer.logIgnoredWorkspaceOnce(session, announced as string);
  const unavailable = choice?.session.unavailableWorkspace;
  const placed = unavailable === undefined ? (choice?.session ?? session) : { ...session, workspaceId: undefined };
  const workspace = requireWorkspace(set, placed);
  return {
    session: placed,
    path: workspace?.path,
    workspaceKey: workspace?.key ?? placed.workspaceId,
    choices: {
      find(name) {
        const id = findAllowedWorkspace(set, session, name, allowed);
        return id === undefined ? undefined : { id, path: set.get(id)?.path };
      },
      suggest: () => suggestWorkspaces(set, session, allowed, unavailable),
      unavailable,
      logMismatch: (chosen, own) =>
        layer.log.info('another workspace was given', { session: session.id, chosen, workspace: own }),
    },
  };
}

/** Adds to the error of a tool without a workspace which ones there are. */
export function explainMissingWorkspace(
  error: unknown,
  { unavailable, suggest }: WorkspaceChoices,
  how: { readonly key: string; readonly listsSessions: boolean },
): unknown {
  if (!isAmbitError(error) || error.code !== 'WORKSPACE_REQUIRED') return error;
  return missingWorkspaceError({ unavailable, available: suggest(), ...how });
}
