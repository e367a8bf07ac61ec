import { type Counters, noCounters } from '../quota.ts';
import { bodyOf, type EndReason, type NewSession, type RecordBody, remainsMs, type SessionRecord } from '../record.ts';
import type { Gone } from '../store.ts';

export interface HeldLease {
  until: number;
  places: number;
  calls: number;
  readonly day: number;
}

export interface HeldEntry {
  readonly text: string;
  readonly bytes: number;
  readonly version: number;
  readonly expiresAt: number | null;
}

/** A session in memory. The body is kept as text, so that nobody outside holds a part of it. */
export interface HeldSession
  extends Pick<SessionRecord, 'id' | 'name' | 'userId' | 'workspaceId' | 'parentId' | 'createdAt'> {
  body: string;
  version: number;
  ttlSeconds: number;
  endsAt: number;
  lastActiveAt: number;
  /** As `expiresAt`, but for the end. Kept, so that remains still tell it when the places are gone. */
  idleAt: number;
  reason: EndReason | 'expired' | undefined;
  counters: Counters;
  stateVersion: number;
  readonly leases: Map<string, HeldLease>;
  readonly state: Map<string, HeldEntry>;
  readonly marks: Map<string, string>;
}

export function holdSession(session: NewSession, now: number): HeldSession {
  const { id, name, userId, workspaceId, parentId, ttlSeconds } = session;
  return {
    id,
    name,
    userId,
    workspaceId,
    parentId,
    createdAt: now,
    body: JSON.stringify(bodyOf(session)),
    version: 1,
    ttlSeconds,
    endsAt: now + session.lifetimeSeconds * 1000,
    lastActiveAt: now,
    idleAt: now + ttlSeconds * 1000,
    reason: undefined,
    counters: noCounters,
    stateVersion: 0,
    leases: new Map(),
    state: new Map(),
    marks: new Map(),
  };
}

export function recordOf(held: HeldSession): SessionRecord {
  const { version, ttlSeconds, createdAt, lastActiveAt, endsAt } = held;
  const body = JSON.parse(held.body) as RecordBody;
  return { ...body, version, ttlSeconds, createdAt, lastActiveAt, endsAt, expiresAt: expiryOf(held) };
}

/** A call under way keeps a session from running out, but not beyond its end. */
export function expiryOf(held: HeldSession): number {
  return Math.min(held.idleAt, held.endsAt);
}

/** After anything it depends on has changed. A place that has run out is no call under way. */
export function setIdle(held: HeldSession, now: number): void {
  held.idleAt = held.lastActiveAt + held.ttlSeconds * 1000;
  for (const { until } of held.leases.values()) if (until > now) held.idleAt = Math.max(held.idleAt, until);
}

export function touch(held: HeldSession, now: number): void {
  held.lastActiveAt = now;
  setIdle(held, now);
}

/** Why it is gone at this instant, swept or not; undefined while it lives. */
export function goneAt(held: HeldSession | undefined, now: number): Gone | undefined {
  if (held === undefined || now >= held.endsAt + remainsMs) return { outcome: 'missing' };
  if (held.reason !== undefined && held.reason !== 'expired') return { outcome: 'ended', reason: held.reason };
  return held.reason === 'expired' || now >= expiryOf(held) ? { outcome: 'expired' } : undefined;
}

export function underWay(held: HeldSession, now: number): number {
  let count = 0;
  for (const lease of held.leases.values()) if (lease.until > now) count += lease.places;
  return count;
}
