import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';

/**
 * The owner of lists. A server may derive its tools from files, the user or credentials, so its lists are as private as
 * those.
 */
export interface ListOwner {
  /** Equal for sessions that may be shown the same lists, and for no others. */
  readonly key: string;
  /** Empty where the lists are for everybody. */
  readonly userId: string;
  readonly workspaceId?: string;
  /** Set where the lists are one session's own. */
  readonly sessionId?: string;
  /** True where the server gets a credential of the user. Its lists may repeat it, so they are not stored. */
  readonly hasCredentials?: true;
}

interface ListPrivacy {
  readonly folder: string | undefined;
  /** True when the session shares lists with no other: it has its own folder, or its user is anonymous. */
  readonly isAlone: boolean;
  /** The revision of the user's credentials for the server; empty where there are none. */
  readonly credentials: string;
}

/** Creates the owner of a session's lists. Lists are never shared across trust levels or credentials. */
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
