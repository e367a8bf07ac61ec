import { AmbitError } from '../errors.ts';
import type { TokenPermissions } from '../identity/principal.ts';
import type { Loaded, NonNull } from '../rules/session-base.ts';
import type { TrustLevel } from '../rules/trust-level.ts';
import type { NewSession, SessionOrigin, SessionRecord, EndReason as StoredEndReason } from '../stores/record.ts';

/** One agent's piece of work with its bounds, as this process has loaded it: frozen, replaced when it changes. */
export interface Session extends Loaded<Omit<SessionRecord, 'lastActiveAt' | 'expiresAt'>> {
  /** Only in the view of one request: the permissions that its token decides about. */
  readonly tokenPermissions?: TokenPermissions;
  /** Only in the view of one request: the workspace that its client announced and may not use. It then works in none. */
  readonly unavailableWorkspace?: string;
}

/**
 * A session to be opened. Without a value, the id is random, there are no permissions, and the configuration decides
 * the rest.
 */
export interface SessionDraft
  extends Partial<NonNull<Omit<NewSession, 'tokenDigests' | 'lifetimeSeconds' | 'origin'>>> {}

/** A draft whose members were checked against their bounds. */
export interface CheckedDraft extends SessionDraft {
  readonly userId: string;
  readonly trustLevel: TrustLevel;
  /** The longest allowed lifetime unless given. */
  readonly lifetimeSeconds?: number;
  readonly origin?: SessionOrigin;
}

/** Tighter bounds for a session. They can only take away. */
export type Restriction = Pick<SessionDraft, 'trustLevel' | 'ttlSeconds' | 'servers' | 'permissions'>;

/** Why a session is gone. */
export type SessionEndReason = StoredEndReason | 'expired';
/** Why this process has unloaded a session: `unloaded` ones live on in the store. */
export type UnloadReason = SessionEndReason | 'unloaded';

type InstantMember = 'createdAt' | 'lastActiveAt' | 'expiresAt' | 'endsAt';

/** A session for people and programs: without digests, with instants in ISO 8601. */
export interface SessionView
  extends Omit<SessionRecord, 'version' | 'keyId' | 'tokenDigests' | 'origin' | InstantMember>,
    Readonly<Record<InstantMember, string>> {}

/** Creates the record of a new session from a draft and defaults. */
export function newSessionOf(
  draft: CheckedDraft,
  defaults: Pick<NewSession, 'id' | 'tokenDigests' | 'ttlSeconds' | 'lifetimeSeconds'>,
): NewSession {
  return {
    ...defaults,
    name: draft.name ?? null,
    userId: draft.userId,
    agentId: draft.agentId ?? null,
    workspaceId: draft.workspaceId ?? null,
    parentId: draft.parentId ?? null,
    keyId: draft.keyId ?? null,
    task: draft.task ?? null,
    quotas: draft.quotas ?? null,
    trustLevel: draft.trustLevel,
    servers: draft.servers ?? null,
    permissions: draft.permissions ?? [],
    metadata: draft.metadata ?? {},
    origin: draft.origin ?? null,
    ttlSeconds: draft.ttlSeconds ?? defaults.ttlSeconds,
    lifetimeSeconds: draft.lifetimeSeconds ?? defaults.lifetimeSeconds,
  };
}

export function sessionOf(record: SessionRecord): Session {
  return Object.freeze({
    id: record.id,
    version: record.version,
    name: record.name ?? undefined,
    userId: record.userId,
    agentId: record.agentId ?? undefined,
    workspaceId: record.workspaceId ?? undefined,
    parentId: record.parentId ?? undefined,
    keyId: record.keyId ?? undefined,
    task: record.task ?? undefined,
    quotas: record.quotas ?? undefined,
    trustLevel: record.trustLevel,
    servers: record.servers === null ? undefined : Object.freeze([...record.servers]),
    permissions: Object.freeze([...record.permissions]),
    metadata: record.metadata,
    // Records from before this field lack it.
    origin: record.origin ?? undefined,
    createdAt: record.createdAt,
    ttlSeconds: record.ttlSeconds,
    endsAt: record.endsAt,
    tokenDigests: Object.freeze([...record.tokenDigests]),
  });
}

export function sessionViewOf(record: SessionRecord): SessionView {
  return {
    id: record.id,
    name: record.name,
    userId: record.userId,
    agentId: record.agentId,
    workspaceId: record.workspaceId,
    parentId: record.parentId,
    // Records from before these fields lack them.
    task: record.task ?? null,
    quotas: record.quotas ?? null,
    trustLevel: record.trustLevel,
    servers: record.servers,
    permissions: record.permissions,
    metadata: record.metadata,
    createdAt: new Date(record.createdAt).toISOString(),
    lastActiveAt: new Date(record.lastActiveAt).toISOString(),
    expiresAt: new Date(record.expiresAt).toISOString(),
    endsAt: new Date(record.endsAt).toISOString(),
    ttlSeconds: record.ttlSeconds,
  };
}

/** Whether an id may be given by the opener of a session; generated ids have 128 random bits. An id proves nothing. */
export function isSuppliedId(id: string): boolean {
  return /^[a-z0-9][a-z0-9-]{7,63}$/.test(id);
}

/** The error for a caller that may know why its session is gone. */
export function sessionGoneError(reason: UnloadReason | undefined): AmbitError {
  if (reason === 'expired') return new AmbitError('SESSION_EXPIRED');
  if (reason === 'unloaded') return new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' });
  return new AmbitError('SESSION_ENDED');
}
