import { AmbitError } from '../errors.ts';
import type { SessionBase } from '../rules/session-base.ts';
import type { Limits } from './admission.ts';

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** How a session was opened, and which of its values were given then. */
export interface SessionOrigin {
  readonly by: SessionOpener;
  /** The members of the draft that were given. The others are defaults, or those of the parent. */
  readonly given: readonly string[];
  /** The members that were restricted since. */
  readonly restricted: readonly string[];
}

/** The opener of a session: the operator by the control API, a caller with a credential, a program, or another session. */
export type SessionOpener = 'control-api' | 'key' | 'access-token' | 'anonymous' | 'stdio' | 'library' | 'session';

/** A session as a store keeps it: JSON data with null for absent values, and times in milliseconds since 1970. */
export interface SessionRecord extends SessionBase {
  /** Counts changes of everything but `lastActiveAt`; starts at 1. */
  readonly version: number;
  readonly name: string | null;
  /** The session that opened this one. */
  readonly parentId: string | null;
  /** The API key it was opened with. The session ends when the key is revoked. */
  readonly keyId: string | null;
  /** The work that the session was opened for, in words. */
  readonly task: string | null;
  /** Limits of its own, below those of the configuration. */
  readonly quotas: Limits | null;
  /** Notes of the orchestrator. Tools do not get them. */
  readonly metadata: { readonly [key: string]: JsonValue };
  /** Null if it is not known; records from before this field lack it. */
  readonly origin: SessionOrigin | null;
  /** One digest for each token of this session. */
  readonly tokenDigests: readonly string[];
  readonly ttlSeconds: number;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  /** The time at which it ends, used or not. */
  readonly endsAt: number;
  /** The time at which it ends unless it is used before; calls under way count as use. Never after `endsAt`. */
  readonly expiresAt: number;
}

/** Fields that the store sets by its own clock. */
type StoreManagedField = 'version' | 'createdAt' | 'lastActiveAt' | 'endsAt' | 'expiresAt';

export interface NewSession extends Omit<SessionRecord, StoreManagedField> {
  readonly lifetimeSeconds: number;
}

const changeableFields = [
  'trustLevel',
  'permissions',
  'servers',
  'metadata',
  'origin',
  'tokenDigests',
  'ttlSeconds',
  'endsAt',
] as const;

/** The fields of a session that can change. Its life only gets shorter: a later `endsAt` or a longer ttl is refused. */
export type SessionChange = Partial<Pick<SessionRecord, (typeof changeableFields)[number]>>;

/** The reason why somebody ended a session. `expired` is not among them, since time does that. */
export type EndReason = 'ended' | 'evicted' | 'revoked' | 'closed';

/** The remains of a session that is gone. They let the owner of a token learn why it ended. */
export interface Tombstone {
  readonly record: SessionRecord;
  readonly reason: EndReason | 'expired';
}

/** The time for which remains are kept after `endsAt`. */
export const remainsMs = 3_600_000;

/** The part of a record that is stored as one text. The rest is stored in fields that the store computes with. */
export interface RecordBody extends Omit<NewSession, 'lifetimeSeconds' | 'ttlSeconds'> {}

export function toBody(session: RecordBody): RecordBody {
  const { id, name, userId, agentId, workspaceId, parentId, keyId, task, quotas } = session;
  const { trustLevel, permissions, servers, metadata, origin, tokenDigests } = session;
  return {
    id,
    name,
    userId,
    agentId,
    workspaceId,
    parentId,
    keyId,
    task,
    quotas,
    trustLevel,
    permissions,
    servers,
    metadata,
    origin,
    tokenDigests,
  };
}

/** Tells whether a change made the limits of a session tighter. */
export function isRestricted(before: SessionRecord, after: SessionRecord): boolean {
  return (['trustLevel', 'permissions', 'servers', 'ttlSeconds', 'endsAt'] as const).some(
    (key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]),
  );
}

/** Applies a change and raises the version. The store computes `expiresAt`, since it knows the calls under way. */
export function applyChange(record: SessionRecord, change: SessionChange): SessionRecord {
  const unknown = Object.keys(change).filter((key) => !(changeableFields as readonly string[]).includes(key));
  if (unknown.length > 0) {
    throw new AmbitError('REQUEST_INVALID', { what: `A session's ${unknown.join(', ')} cannot be changed.` });
  }
  const next = { ...record, ...change, version: record.version + 1 };
  // An end in the past means now, because remains are kept from `endsAt` on.
  if (change.endsAt !== undefined) next.endsAt = Math.max(change.endsAt, record.lastActiveAt);
  if (next.ttlSeconds > record.ttlSeconds || (change.endsAt ?? 0) > record.endsAt) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The lifetime of a session can be shortened, but not extended.' });
  }
  return next;
}
