import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';

/**
 * Whose lists they are. A server may derive its tools from the files, the user or the credentials it was started with,
 * so its lists are as private as those.
 */
export interface ListOwner {
  /** Equal for sessions that may be shown the same lists, and for no others. */
  readonly key: string;
  /** Empty where the lists are for everybody. */
  readonly userId: string;
  readonly workspaceId?: string;
  /** Set where the lists are one session's own. */
  readonly sessionId?: string;
  /** True where the server was given something of the user. Its lists may repeat it, so they are not written down. */
  readonly hasCredentials?: true;
}

export interface ListPrivacy {
  /** The folder of the workspace the session stands in. */
  readonly folder: string | undefined;
  /** Whether the session shares lists with no other: its server works in a folder of its own, or its user is nobody known. */
  readonly isAlone: boolean;
  /** Differs where the server is given something of the user; else empty. */
  readonly credentials: string;
}

/** Processes are never shared across trust levels, and neither are lists. Nor are those made with a user's credentials. */
export function createListOwner(session: Session, server: ServerDefinition, privacy: ListPrivacy): ListOwner {
  const { id, userId, workspaceId, trustLevel } = session;
  const { folder, isAlone, credentials } = privacy;
  const given = credentials === '' ? {} : { hasCredentials: true as const };
  const isProcessShared = server.kind === 'stdio' && server.scope === 'shared';
  if (server.catalog === 'shared' || isProcessShared) {
    const key = JSON.stringify(['shared', trustLevel, credentials]);
    return { key, userId: credentials === '' ? '' : userId, ...given };
  }
  const parts = [userId, workspaceId ?? null, folder ?? null, trustLevel, credentials, isAlone ? id : null];
  return {
    key: JSON.stringify(parts),
    userId,
    ...(workspaceId === undefined ? {} : { workspaceId }),
    ...(isAlone ? { sessionId: id } : {}),
    ...given,
  };
}
