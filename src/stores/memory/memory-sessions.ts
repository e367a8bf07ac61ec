import type { Feed } from '../feed.ts';
import { type Counters, noCounters } from '../quota.ts';
import { bodyOf, type EndReason, type NewSession, type RecordBody, remainsMs, type SessionRecord } from '../record.ts';
import type { Caps, Created, Gone, SessionFilter } from '../store.ts';

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

export interface MemorySessions {
  create(session: NewSession, caps: Caps): Created;
  reach(id: string): HeldSession | Gone;
  /** Gone or not, as long as anything is left of it. */
  any(id: string): HeldSession | undefined;
  of(filter: SessionFilter): HeldSession[];
  siblings(scope: 'user' | 'workspace', owner: string): Iterable<HeldSession>;
  bury(held: HeldSession, reason: EndReason | 'expired'): void;
  sweep(): number;
}

/** Graves are small, but a memory is not endless: beyond this many the oldest are forgotten. */
const mostGraves = 10_000;

export function createMemorySessions(now: () => number, feed: Feed): MemorySessions {
  const live = new Map<string, HeldSession>();
  const graves = new Map<string, HeldSession>();
  const byUser = new Map<string, Set<HeldSession>>();
  const byWorkspace = new Map<string, Set<HeldSession>>();

  function any(id: string): HeldSession | undefined {
    return live.get(id) ?? graves.get(id);
  }

  function bury(held: HeldSession, reason: EndReason | 'expired'): void {
    live.delete(held.id);
    leave(byUser, held.userId, held);
    if (held.workspaceId !== null) leave(byWorkspace, held.workspaceId, held);
    held.reason = reason;
    held.leases.clear();
    held.state.clear();
    held.marks.clear();
    graves.set(held.id, held);
    if (graves.size > mostGraves) graves.delete(graves.keys().next().value as string);
    feed.tell({ kind: 'ended', id: held.id, reason, here: true });
  }

  function sweep(): number {
    const at = now();
    const expired = [...live.values()].filter((held) => at >= expiryOf(held));
    for (const held of expired) bury(held, 'expired');
    for (const held of graves.values()) if (at >= held.endsAt + remainsMs) graves.delete(held.id);
    return expired.length;
  }

  function makeRoom(most: number): boolean {
    if (live.size >= most) sweep();
    if (live.size < most) return true;
    let idlest: HeldSession | undefined;
    for (const held of live.values()) {
      const busy = [...held.leases.values()].some((lease) => lease.until > now());
      if (!busy && (idlest === undefined || held.lastActiveAt < idlest.lastActiveAt)) idlest = held;
    }
    if (idlest === undefined) return false;
    bury(idlest, 'evicted');
    return true;
  }

  return {
    create(session, caps) {
      if (goneAt(any(session.id), now())?.outcome !== 'missing') return { outcome: 'exists', what: 'id' };
      graves.delete(session.id);
      const own = [...(byUser.get(session.userId) ?? [])].filter((held) => goneAt(held, now()) === undefined);
      if (session.name !== null && own.some((held) => held.name === session.name)) {
        return { outcome: 'exists', what: 'name' };
      }
      if (caps.perUser !== undefined && own.length >= caps.perUser) return { outcome: 'full', cap: 'perUser' };
      if (caps.inAll !== undefined && !makeRoom(caps.inAll)) return { outcome: 'full', cap: 'inAll' };
      const held = holdSession(session, now());
      live.set(held.id, held);
      join(byUser, held.userId, held);
      if (held.workspaceId !== null) join(byWorkspace, held.workspaceId, held);
      feed.tell({ kind: 'created', id: held.id, version: 1, here: true });
      return { outcome: 'created', record: recordOf(held) };
    },

    reach(id) {
      const held = any(id);
      return goneAt(held, now()) ?? (held as HeldSession);
    },

    any,

    of(filter) {
      const { userId, workspaceId, parentId } = filter;
      const near: Iterable<HeldSession> =
        userId !== undefined
          ? (byUser.get(userId) ?? [])
          : workspaceId !== undefined
            ? (byWorkspace.get(workspaceId) ?? [])
            : live.values();
      return [...near].filter(
        (held) =>
          goneAt(held, now()) === undefined &&
          (workspaceId === undefined || held.workspaceId === workspaceId) &&
          (parentId === undefined || held.parentId === parentId),
      );
    },

    siblings: (scope, owner) => (scope === 'user' ? byUser : byWorkspace).get(owner) ?? [],
    bury,
    sweep,
  };
}

function join(groups: Map<string, Set<HeldSession>>, name: string, held: HeldSession): void {
  const group = groups.get(name);
  if (group === undefined) groups.set(name, new Set([held]));
  else group.add(held);
}

function leave(groups: Map<string, Set<HeldSession>>, name: string, held: HeldSession): void {
  const group = groups.get(name);
  group?.delete(held);
  if (group?.size === 0) groups.delete(name);
}

function holdSession(session: NewSession, now: number): HeldSession {
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
