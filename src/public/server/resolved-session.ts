import { randomUUID } from 'node:crypto';
import type { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { CheckedDraft, Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { UserSessions } from '../../sessions/user-sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import {
  freezeContext,
  type OwnContext,
  type SessionContext,
  type SessionLife,
  type UnprintedMembers,
} from '../sdk/context.ts';
import type { FindWorkspaces } from './declared-workspaces.ts';
import type { IdentifyCaller } from './identify-caller.ts';
import type { NamedSessions } from './named-sessions.ts';
import type { ServerSettings } from './settings.ts';

/** The session a call belongs to, and how to describe it to the handler. */
export interface ResolvedSession {
  readonly session: Session;
  /** The caller, for the session tools; undefined behind Ambit, which offers its own tools. */
  readonly principal: Principal | undefined;
  /** Tells the credentials of one caller apart. */
  readonly credential: string;
  /** The workspaces that the caller may use; null for all. */
  readonly workspaces: readonly string[] | null;
  /** The workspaces among which its client chooses, if the credential limits the choice. */
  readonly selectable?: readonly string[] | null;
  /** False for sessions of Ambit, which counts their calls itself. */
  readonly isCounted: boolean;
  /** Another session replaces it when it is gone: this server does not decide whether the caller may go on. */
  readonly isRenewable: boolean;
  /** The session ends with the call. */
  readonly endsWithCall?: boolean;
  /** The session ends when the client leaves, also if it leaves while its first call opens the session. */
  readonly endsWithConnection?: boolean;
  /** The error to answer with when the session is gone, if there is a better one than the store's. */
  explainGone?(): Promise<AmbitError>;
  /** The context of a session of Ambit; undefined for a session of this server. */
  createContext?(members: Partial<UnprintedMembers>): SessionContext;
}

/**
 * Opens a session within the bounds of its workspace. With `isAsked`, a trust level above them is refused; otherwise it
 * is lowered to them.
 */
export type OpenInWorkspace = (draft: CheckedDraft, isAsked?: boolean) => ReturnType<Sessions['create']>;

export interface SessionLayer {
  readonly settings: ServerSettings;
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly namedSessions: NamedSessions;
  readonly userSessions: UserSessions;
  readonly identifyCaller: IdentifyCaller;
  readonly findWorkspaces: FindWorkspaces;
  readonly openIn: OpenInWorkspace;
}

/** Describes a session of the server's own to a handler. */
export function createOwnContext(
  session: Session,
  workspacePath: string | undefined,
  members: Partial<UnprintedMembers>,
): OwnContext {
  return freezeContext<OwnContext>(
    {
      status: 'own',
      sessionId: session.id,
      correlationId: randomUUID(),
      userId: session.userId,
      agentId: session.agentId,
      workspaceId: session.workspaceId,
      workspacePath,
      trustLevel: session.trustLevel,
      permissions: [...session.permissions],
      issuedAt: undefined,
      expiresAt: undefined,
      reason: undefined,
      code: undefined,
    },
    members,
  );
}

/** Describes the life of a session at the time of a call. */
export function describeLife(session: Session, now: number): SessionLife {
  const { name, parentId, createdAt, ttlSeconds, endsAt, metadata } = session;
  const expiresAt = Math.min(now + ttlSeconds * 1000, endsAt);
  const life = { name, parentId, createdAt, lastActiveAt: now, ttlSeconds, expiresAt, endsAt };
  // A copy, so that no handler can change what another one reads.
  return Object.freeze({ ...life, metadata: structuredClone(metadata) as SessionLife['metadata'] });
}
