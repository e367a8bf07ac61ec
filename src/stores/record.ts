import { AmbitError } from '../errors.ts';
import type { SessionBase } from '../rules/session-base.ts';

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/**
 * A session as a store keeps it. Plain data that survives JSON: what is absent is null, never undefined. Times are
 * milliseconds since 1970, by the store's clock.
 */
export interface SessionRecord extends SessionBase {
  /** Counts the changes of everything but `lastActiveAt`; it starts at 1. */
  readonly version: number;
  readonly name: string | null;
  /** The session that opened this one. */
  readonly parentId: string | null;
  /** The API key it was opened with: when that is revoked, it ends. */
  readonly keyId: string | null;
  /** Notes of the orchestrator. Tools are not told. */
  readonly metadata: { readonly [key: string]: JsonValue };
  /** One for each token that proves this session. */
  readonly tokenDigests: readonly string[];
  readonly ttlSeconds: number;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  /** The instant after which no activity keeps it alive. */
  readonly endsAt: number;
  /** The instant at which it ends unless it is used before; calls under way count as use. Never after `endsAt`. */
  readonly expiresAt: number;
}

/** What a store sets by itself, from its own clock. */
type StoreManagedField = 'version' | 'createdAt' | 'lastActiveAt' | 'endsAt' | 'expiresAt';

export interface NewSession extends Omit<SessionRecord, StoreManagedField> {
  readonly lifetimeSeconds: number;
}

/** All that can change about a session. A life only gets shorter: a later `endsAt` or a longer ttl is refused. */
export type SessionChange = Partial<
  Pick<SessionRecord, 'trustLevel' | 'permissions' | 'servers' | 'metadata' | 'tokenDigests' | 'ttlSeconds' | 'endsAt'>
>;

/** Why a session is gone. `expired` is never given by anyone: it is what time does. */
export type EndReason = 'ended' | 'evicted' | 'revoked' | 'closed';

/** What is left of a session that is gone: enough to tell whoever can prove it was theirs why. */
export interface Remains {
  readonly record: SessionRecord;
  readonly reason: EndReason | 'expired';
}

/** How long remains are kept after the instant at which the session would have ended at the latest. */
export const remainsMs = 3_600_000;

const changeableFields: ReadonlySet<string> = new Set<keyof SessionChange>([
  'trustLevel',
  'permissions',
  'servers',
  'metadata',
  'tokenDigests',
  'ttlSeconds',
  'endsAt',
]);

/** The part of a record that is written as one text; the rest is kept where a store can count with it. */
export interface RecordBody extends Omit<NewSession, 'lifetimeSeconds' | 'ttlSeconds'> {}

export function pickBody(session: RecordBody): RecordBody {
  const { id, name, userId, agentId, workspaceId, parentId, keyId } = session;
  const { trustLevel, permissions, servers, metadata, tokenDigests } = session;
  return {
    id,
    name,
    userId,
    agentId,
    workspaceId,
    parentId,
    keyId,
    trustLevel,
    permissions,
    servers,
    metadata,
    tokenDigests,
  };
}

/** Whether a change made the bounds of a session tighter. */
export function isRestricted(before: SessionRecord, after: SessionRecord): boolean {
  return (['trustLevel', 'permissions', 'servers', 'ttlSeconds', 'endsAt'] as const).some(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]),
  );
}

/** The record as it is after a change, its version one higher. `expiresAt` is left to the store, which knows the calls. */
export function applyChange(record: SessionRecord, change: SessionChange): SessionRecord {
  const unknown = Object.keys(change).filter((key) => !changeableFields.has(key));
  if (unknown.length > 0) {
    throw new AmbitError('REQUEST_INVALID', { what: `A session's ${unknown.join(', ')} cannot change.` });
  }
  const next = { ...record, ...change, version: record.version + 1 };
  // An end in the past is an end now: remains are kept from there.
  if (change.endsAt !== undefined) next.endsAt = Math.max(change.endsAt, record.lastActiveAt);
  if (next.ttlSeconds > record.ttlSeconds || (change.endsAt ?? 0) > record.endsAt) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The life of a session can be made shorter, not longer.' });
  }
  return next;
}
