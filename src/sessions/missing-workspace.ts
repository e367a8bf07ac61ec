import { findNearest } from '../config/explain/suggest.ts';
import { AmbitError } from '../errors.ts';
import type { Session } from './session.ts';
import { isUsableWorkspace, maxShownLength, type WorkspaceNames } from './workspace-choice.ts';

const maxSuggested = 10;

/** Lists the workspaces that a session may use. Of many, these are the ones with names near to the announced one, and others. */
export function suggestWorkspaces(
  names: WorkspaceNames,
  session: Session,
  limit: readonly string[] | null,
  announced = '',
): string[] {
  const usable = names.list().filter((id) => isUsableWorkspace(names, session, id, limit));
  if (usable.length <= maxSuggested) return usable;
  const near = findNearest(announced.slice(announced.lastIndexOf('/') + 1), usable, maxSuggested);
  return [...new Set([...near, ...usable])].slice(0, maxSuggested);
}

interface MissingWorkspace {
  /** The workspace that the client announced, if it is not available. */
  readonly unavailable: string | undefined;
  /** The workspaces that the caller may use. */
  readonly available: readonly string[];
  /** The key of `_meta` under which clients announce a workspace. */
  readonly key: string;
  /** Whether there is a tool that lists sessions. */
  readonly listsSessions: boolean;
}

/** The error of a tool that needs a workspace. It says which ones there are. */
export function missingWorkspaceError({ unavailable, available, key, listsSessions }: MissingWorkspace): AmbitError {
  const other = listsSessions ? ['Pass another session as "session": session_list shows yours.'] : [];
  const quoted = available.map((name) => JSON.stringify(name)).join(', ');
  const announced =
    available.length === 0
      ? []
      : [
          `The client can announce one of these in _meta.${key}.workspace, before MCP 2026-07-28 in that of "initialize": ${quoted}.`,
        ];
  const hints = [...other, ...announced];
  const hint = hints.length === 0 ? 'No workspace is available to this session: ask its operator.' : hints.join(' ');
  if (unavailable === undefined) return new AmbitError('WORKSPACE_REQUIRED', { hint });
  const shown = JSON.stringify(unavailable.slice(0, maxShownLength));
  const what = `The client announced the workspace ${shown}, which is not available to this session.`;
  return new AmbitError('WORKSPACE_NOT_FOUND', { what, hint });
}
