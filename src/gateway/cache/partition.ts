import type { ActingSession } from '../../rules/session-base.ts';

export type Sharing = 'session' | 'user' | 'workspace';

/** The part of a session that decides with whom it may share a result. */
export type PartitionFacts = Omit<ActingSession, 'agentId'>;

export interface Partition {
  /** Equal for those who may share, and for nobody else. */
  readonly name: string;
  /** The session it ends with, where it is one session's own. */
  readonly owner: string | undefined;
  readonly severalUsers: boolean;
}

/**
 * Who shares results. Whatever is chosen, only sessions of the same trust, the same permissions and the same workspace
 * do; and where a server is given something of a user (`personal`), only sessions of that user.
 */
export function partitionOf(per: Sharing, session: PartitionFacts, personal: string): Partition {
  const { id, userId, workspaceId, trustLevel, permissions } = session;
  const chosen = per === 'workspace' && workspaceId === undefined ? 'session' : per;
  const who = { session: id, user: userId, workspace: personal === '' ? '' : userId }[chosen];
  const parts = [chosen, who, workspaceId ?? null, trustLevel, [...new Set(permissions)].sort(), personal];
  return {
    name: JSON.stringify(parts),
    owner: chosen === 'session' ? id : undefined,
    severalUsers: chosen === 'workspace' && personal === '',
  };
}
