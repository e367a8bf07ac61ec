import type { TokenPermissions } from '../identity/principal.ts';
import type { JsonValue, SessionRecord, EndReason as StoredEndReason } from '../stores/record.ts';
import type { TrustLevel } from '../trust/trust-level.ts';

export type Metadata = { readonly [key: string]: JsonValue };

/** Ambit's record of one agent's piece of work, with its bounds, as this process holds it: frozen, replaced when it changes. */
export interface Session {
  readonly id: string;
  /** Counts the changes; a decision made on one version does not hold for the next. */
  readonly version: number;
  readonly name: string | undefined;
  readonly userId: string;
  readonly agentId: string | undefined;
  readonly workspaceId: string | undefined;
  /** The session that opened this one. */
  readonly parentId: string | undefined;
  /** The API key it was opened with. */
  readonly keyId: string | undefined;
  readonly trustLevel: TrustLevel;
  /** The servers it is limited to; undefined when it has no list of its own. */
  readonly servers: readonly string[] | undefined;
  readonly permissions: readonly string[];
  /** Only in the view that one request has of it: what the token of that request decides about. */
  readonly byToken?: TokenPermissions;
  readonly metadata: Metadata;
  readonly createdAt: number;
  readonly ttlSeconds: number;
  /** The instant after which no activity keeps it alive, by the store's clock. */
  readonly endsAt: number;
  /** Of the token it was opened with, then of further ones. */
  readonly tokenDigests: readonly string[];
}

export interface SessionDraft {
  /** Instead of a random one. */
  readonly id?: string;
  readonly name?: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly workspaceId?: string;
  readonly parentId?: string;
  /** The API key it is opened with: when that is revoked, it ends. */
  readonly keyId?: string;
  readonly trustLevel?: TrustLevel;
  readonly ttlSeconds?: number;
  /** Limits it to these servers; an empty list means none at all. */
  readonly servers?: readonly string[];
  /** What it may do, by name; none unless said. */
  readonly permissions?: readonly string[];
  /** What the orchestrator wants to find again. Tools are not told. */
  readonly metadata?: Metadata;
}

/** What a session can be asked to do without. Nothing in it can give more. */
export type Narrowing = Pick<SessionDraft, 'trustLevel' | 'ttlSeconds' | 'servers' | 'permissions'>;

/** Why a session is gone. */
export type EndReason = StoredEndReason | 'expired';
/** Why this process holds it no longer: `unloaded` ones live on in the store. */
export type LeaveReason = EndReason | 'unloaded';

/** What people and programs are shown: never a digest. */
export interface SessionView {
  readonly id: string;
  readonly name: string | null;
  readonly userId: string;
  readonly agentId: string | null;
  readonly workspaceId: string | null;
  readonly parentId: string | null;
  readonly trustLevel: TrustLevel;
  readonly servers: readonly string[] | null;
  readonly permissions: readonly string[];
  readonly metadata: Metadata;
  readonly createdAt: string;
  readonly lastActiveAt: string;
  readonly expiresAt: string;
  /** The instant after which no activity keeps it alive. */
  readonly endsAt: string;
  readonly ttlSeconds: number;
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
    trustLevel: record.trustLevel,
    servers: record.servers === null ? undefined : Object.freeze([...record.servers]),
    permissions: Object.freeze([...record.permissions]),
    metadata: record.metadata,
    createdAt: record.createdAt,
    ttlSeconds: record.ttlSeconds,
    endsAt: record.endsAt,
    tokenDigests: Object.freeze([...record.tokenDigests]),
  });
}

export function viewOf(record: SessionRecord): SessionView {
  return {
    id: record.id,
    name: record.name,
    userId: record.userId,
    agentId: record.agentId,
    workspaceId: record.workspaceId,
    parentId: record.parentId,
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
