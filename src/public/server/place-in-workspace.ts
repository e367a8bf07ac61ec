import { AmbitError, isAmbitError } from '../../errors.ts';
import { isTrustAtMost } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';
import { applyAnnounced } from '../../sessions/workspace-choice.ts';
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

const maxSuggested = 10;

/**
 * Puts a session into the workspace that its client announced. If it may not use that one, the call goes on without a
 * workspace, and tools that need one say so.
 */
export async function placeInWorkspace(
  layer: OpenSessionLayer,
  { workspaces: allowed, endsWithCall }: ResolvedSession,
  session: Session,
  announced: string | undefined,
): Promise<PlacedSession> {
  const set = await layer.findWorkspaces(session);
  const mayUse = (id: string) =>
    (allowed === null || allowed.includes(id)) && isTrustAtMost(session.trustLevel, set.trustOf(id));
  let placed = session;
  let unavailable: string | undefined;
  if (announced !== undefined) {
    try {
      const choice = applyAnnounced(set, session, announced);
      placed = choice.session;
      if (choice.ignored) layer.logIgnoredWorkspaceOnce(session, announced);
    } catch (error) {
      if (!isAmbitError(error)) throw error;
      unavailable = announced;
      if (!endsWithCall) layer.logIgnoredWorkspaceOnce(session, announced);
    }
  }
  const workspace = requireWorkspace(set, placed);
  return {
    session: placed,
    path: workspace?.path,
    workspaceKey: workspace?.key ?? placed.workspaceId,
    choices: {
      find(name) {
        const id = set.findIds(name).find(mayUse);
        return id === undefined ? undefined : { id, path: set.get(id)?.path };
      },
      suggest: () => set.list().filter(mayUse).slice(0, maxSuggested),
      unavailable,
      logMismatch: (chosen, own) =>
        layer.log.info('another workspace was given', { session: session.id, chosen, workspace: own }),
    },
  };
}

/**
 * Adds to the error of a tool without a workspace which ones there are. `key` is the key under which clients announce
 * one, and `listsSessions` says whether there is a tool that lists sessions.
 */
export function explainMissingWorkspace(
  error: unknown,
  choices: WorkspaceChoices,
  { key, listsSessions }: { readonly key: string; readonly listsSessions: boolean },
): unknown {
  const { unavailable, suggest } = choices;
  if (!isAmbitError(error) || error.code !== 'WORKSPACE_REQUIRED') return error;
  const names = suggest();
  const other = listsSessions ? ['Pass another session as "session": session_list shows yours.'] : [];
  const quoted = names.map((name) => JSON.stringify(name)).join(', ');
  const announced =
    names.length === 0
      ? []
      : [
          `The client can announce one of these in _meta.${key}.workspace, before MCP 2026-07-28 in that of "initialize": ${quoted}.`,
        ];
  const hints = [...other, ...announced];
  const hint = hints.length === 0 ? 'This server offers no workspace: ask the person who runs it.' : hints.join(' ');
  if (unavailable === undefined) return new AmbitError('WORKSPACE_REQUIRED', { hint });
  const shown = JSON.stringify(unavailable.slice(0, 100));
  const what = `The client announced the workspace ${shown}, which is not available to this session.`;
  return new AmbitError('WORKSPACE_NOT_FOUND', { what, hint });
}
