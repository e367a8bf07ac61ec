import type { ActingSession } from '../../rules/session-base.ts';
import type { SessionContext } from './context-names.ts';
import type { PseudonymKind, Pseudonyms } from './pseudonyms.ts';

export interface ToldWorkspace {
  readonly id: string;
  /** As the process sees it; undefined where the files lie in no folder. */
  readonly path: string | undefined;
}

/** What a process is told that serves this one session, in this workspace. */
export function contextFor(
  session: Pick<ActingSession, 'id' | 'userId' | 'agentId' | 'trustLevel'>,
  workspace: ToldWorkspace | undefined,
  jwks?: string | undefined,
): SessionContext {
  return {
    sessionId: session.id,
    workspaceId: workspace?.id ?? '',
    trustLevel: session.trustLevel,
    userId: session.userId,
    agentId: session.agentId ?? '',
    workspacePath: workspace?.path ?? '',
    jwks,
  };
}

/** The same under names that mean nothing to anybody else, and without the path. */
export function hiddenContextFor(context: SessionContext, audience: string, pseudonyms: Pseudonyms): SessionContext {
  const hidden = (kind: PseudonymKind, value: string | null | undefined) =>
    value === undefined || value === null || value === '' ? value : pseudonyms.of(kind, audience, value);
  return {
    ...context,
    sessionId: hidden('session', context.sessionId) ?? undefined,
    userId: hidden('user', context.userId) ?? undefined,
    agentId: hidden('agent', context.agentId),
    workspaceId: hidden('workspace', context.workspaceId),
    workspacePath: undefined,
  };
}
