import type { TrustLevel } from '../trust/trust-level.ts';

/** Ambit's record of one agent's piece of work, with its bounds. Plain data; times are milliseconds since 1970. */
export interface Session {
  readonly id: string;
  readonly name: string | undefined;
  readonly userId: string;
  readonly agentId: string | undefined;
  readonly workspaceId: string | undefined;
  readonly trustLevel: TrustLevel;
  /** The servers it is limited to; undefined when it has no list of its own. */
  readonly servers: readonly string[] | undefined;
  readonly permissions: readonly string[];
  readonly createdAt: number;
  readonly ttlSeconds: number;
  /** The instant after which no activity keeps it alive. */
  readonly endsAt: number;
  /** Of the token it was opened with, then of further ones. */
  readonly tokenDigests: readonly string[];
}

export interface SessionDraft {
  readonly name?: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly workspaceId?: string;
  readonly trustLevel?: TrustLevel;
  readonly ttlSeconds?: number;
  /** Limits it to these servers; an empty list means none at all. */
  readonly servers?: readonly string[];
  /** What it may do, by name; none unless said. */
  readonly permissions?: readonly string[];
}

/** What a session can be asked to do without. Nothing in it can give more. */
export type Narrowing = Pick<SessionDraft, 'trustLevel' | 'ttlSeconds' | 'servers' | 'permissions'>;

export type EndReason = 'ended' | 'expired' | 'evicted' | 'closed';

/** What people and programs are shown: never a digest. */
export interface SessionView {
  readonly id: string;
  readonly name: string | null;
  readonly userId: string;
  readonly agentId: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: TrustLevel;
  readonly servers: readonly string[] | null;
  readonly permissions: readonly string[];
  readonly createdAt: string;
  readonly lastActiveAt: string;
  readonly expiresAt: string;
  readonly ttlSeconds: number;
}

export function viewOf(session: Session, lastActiveAt: number): SessionView {
  return {
    id: session.id,
    name: session.name ?? null,
    userId: session.userId,
    agentId: session.agentId ?? null,
    workspaceId: session.workspaceId ?? null,
    trustLevel: session.trustLevel,
    servers: session.servers ?? null,
    permissions: session.permissions,
    createdAt: new Date(session.createdAt).toISOString(),
    lastActiveAt: new Date(lastActiveAt).toISOString(),
    expiresAt: new Date(expiryOf(session, lastActiveAt)).toISOString(),
    ttlSeconds: session.ttlSeconds,
  };
}

export function expiryOf(session: Session, lastActiveAt: number): number {
  return Math.min(lastActiveAt + session.ttlSeconds * 1000, session.endsAt);
}
