import type { HeldLease } from '../admission.ts';
import type { ChangeFeed } from '../feed.ts';
import type { StoredMessage } from '../inbox.ts';
import { type Counters, noCounters } from '../quota.ts';
import { type EndReason, type NewSession, type RecordBody, remainsMs, type SessionRecord, toBody } from '../record.ts';
import type { Caps, Created, Gone, SessionFilter } from '../store.ts';

export interface MemoryLease {
  until: number;
  places: number;
  calls: number;
  readonly day: number;
}

export interface MemoryStateEntry {
  readonly text: string;
  readonly bytes: number;
  readonly version: number;
  readonly expiresAt: number | null;
}

/** A session in memory. The body is kept as text, so that callers share no object with the store. */
export interface MemorySession
  extends Pick<SessionRecord, 'id' | 'name' | 'userId' | 'workspaceId' | 'parentId' | 'createdAt'> {
  body: string;
  version: number;
  ttlSeconds: number;
  endsAt: number;
  lastActiveAt: number;
  /** `expiresAt` without regard to `endsAt`. It is kept, so that `remains` knows it after the leases are gone. */
  idleAt: number;
  reason: EndReason | 'expired' | undefined;
  /** False for a child in the workspace of its parent: its calls count there with the parent. */
  readonly countsWorkspace: boolean;
  counters: Counters;
  stateVersion: number;
  readonly leases: Map<string, MemoryLease>;
  readonly state: Map<string, MemoryStateEntry>;
  readonly results: Map<string, MemoryStateEntry>;
  readonly marks: Map<string, string>;
  /** The messages that are not acknowledged, and the number of the last one ever received. */
  readonly inbox: StoredMessage[];
  lastMessage: number;
  /** The pace of the messages that it sends. */
  messagePaceUs: number;
}

export interface MemorySessions {
  create(session: NewSession, caps: Caps): Created;
  findLive(id: string): MemorySession | Gone;
  /** Finds a session that is live or whose remains are still kept. */
  find(id: string): MemorySession | undefined;
  list(filter: SessionFilter): MemorySession[];
  listOwned(scope: 'user' | 'workspace', owner: string): Iterable<MemorySession>;
  countChildren(id: string): number;
  remove(held: MemorySession, reason: EndReason | 'expired'): void;
  sweep(): number;
}

/** The most remains that are kept; beyond this the oldest are dropped. */
const maxTombstones = 10_000;

export function createMemorySessions(now: () => number, feed: ChangeFeed): MemorySessions {
  const live = new Map<string, MemorySession>();
  const tombstones = new Map<string, MemorySession>();
  const byUser = new Map<string, Set<MemorySession>>();
  const byWorkspace = new Map<string, Set<MemorySession>>();
  const byParent = new Map<string, Set<MemorySession>>();

  function findAny(id: string): MemorySession | undefined {
    return live.get(id) ?? tombstones.get(id);
  }

  function removeSession(held: MemorySession, reason: EndReason | 'expired'): void {
    live.delete(held.id);
    removeFromGroup(byUser, held.userId, held);
    if (held.workspaceId !== null) removeFromGroup(byWorkspace, held.workspaceId, held);
    if (held.parentId !== null) removeFromGroup(byParent, held.parentId, held);
    held.reason = reason;
    held.leases.clear();
    held.state.clear();
    held.results.clear();
    held.marks.clear();
    held.inbox.length = 0;
    tombstones.set(held.id, held);
    if (tombstones.size > maxTombstones) tombstones.delete(tombstones.keys().next().value as string);
    feed.publish({ kind: 'ended', id: held.id, reason, here: true });
  }

  function sweepExpired(): number {
    const at = now();
    const expired = [...live.values()].filter((held) => at >= findExpiry(held));
    for (const held of expired) removeSession(held, 'expired');
    for (const held of tombstones.values()) if (at >= held.endsAt + remainsMs) tombstones.delete(held.id);
    return expired.length;
  }

  function makeRoom(max: number): boolean {
    if (live.size >= max) sweepExpired();
    if (live.size < max) return true;
    let idlest: MemorySession | undefined;
    for (const held of live.values()) {
      const busy = [...held.leases.values()].some((lease) => lease.until > now());
      if (!busy && (idlest === undefined || held.lastActiveAt < idlest.lastActiveAt)) idlest = held;
    }
    if (idlest === undefined) return false;
    removeSession(idlest, 'evicted');
    return true;
  }

  return {
    create(session, caps) {
      if (findGone(findAny(session.id), now())?.outcome !== 'missing') return { outcome: 'exists', what: 'id' };
      tombstones.delete(session.id);
      const own = [...(byUser.get(session.userId) ?? [])].filter((held) => findGone(held, now()) === undefined);
      if (session.name !== null && own.some((held) => held.name === session.name)) {
        return { outcome: 'exists', what: 'name' };
      }
      if (caps.perUser !== undefined && own.length >= caps.perUser) return { outcome: 'full', cap: 'perUser' };
      if (caps.perParent !== undefined && session.parentId !== null) {
        const siblings = own.filter(({ parentId }) => parentId === session.parentId);
        if (siblings.length >= caps.perParent) return { outcome: 'full', cap: 'perParent' };
      }
      if (caps.inAll !== undefined && !makeRoom(caps.inAll)) return { outcome: 'full', cap: 'inAll' };
      const parent = session.parentId === null ? undefined : live.get(session.parentId);
      const held = createMemorySession(session, now(), parent);
      live.set(held.id, held);
      addToGroup(byUser, held.userId, held);
      if (held.workspaceId !== null) addToGroup(byWorkspace, held.workspaceId, held);
      if (held.parentId !== null) addToGroup(byParent, held.parentId, held);
      feed.publish({ kind: 'created', id: held.id, version: 1, here: true });
      return { outcome: 'created', record: toRecord(held) };
    },

    findLive(id) {
      const held = findAny(id);
      return findGone(held, now()) ?? (held as MemorySession);
    },

    find: findAny,

    list(filter) {
      const { userId, workspaceId, parentId } = filter;
      const candidates: Iterable<MemorySession> =
        parentId !== undefined
          ? (byParent.get(parentId) ?? [])
          : userId !== undefined
            ? (byUser.get(userId) ?? [])
            : workspaceId !== undefined
              ? (byWorkspace.get(workspaceId) ?? [])
              : live.values();
      return [...candidates].filter(
        (held) =>
          findGone(held, now()) === undefined &&
          (userId === undefined || held.userId === userId) &&
          (workspaceId === undefined || held.workspaceId === workspaceId),
      );
    },

    countChildren: (id) => [...(byParent.get(id) ?? [])].filter((held) => findGone(held, now()) === undefined).length,
    listOwned: (scope, owner) => (scope === 'user' ? byUser : byWorkspace).get(owner) ?? [],
    remove: removeSession,
    sweep: sweepExpired,
  };
}

function addToGroup(groups: Map<string, Set<MemorySession>>, name: string, held: MemorySession): void {
  const group = groups.get(name);
  if (group === undefined) groups.set(name, new Set([held]));
  else group.add(held);
}

function removeFromGroup(groups: Map<string, Set<MemorySession>>, name: string, held: MemorySession): void {
  const group = groups.get(name);
  group?.delete(held);
  if (group?.size === 0) groups.delete(name);
}

function createMemorySession(session: NewSession, now: number, parent: MemorySession | undefined): MemorySession {
  const { id, name, userId, workspaceId, parentId, ttlSeconds } = session;
  return {
    id,
    name,
    userId,
    workspaceId,
    parentId,
    createdAt: now,
    body: JSON.stringify(toBody(session)),
    version: 1,
    ttlSeconds,
    endsAt: now + session.lifetimeSeconds * 1000,
    lastActiveAt: now,
    idleAt: now + ttlSeconds * 1000,
    reason: undefined,
    countsWorkspace: parent === undefined || parent.workspaceId !== workspaceId,
    counters: noCounters,
    stateVersion: 0,
    leases: new Map(),
    state: new Map(),
    results: new Map(),
    marks: new Map(),
    inbox: [],
    lastMessage: 0,
    messagePaceUs: 0,
  };
}

export function toRecord(held: MemorySession): SessionRecord {
  const { version, ttlSeconds, createdAt, lastActiveAt, endsAt } = held;
  const body = JSON.parse(held.body) as RecordBody;
  return { ...body, version, ttlSeconds, createdAt, lastActiveAt, endsAt, expiresAt: findExpiry(held) };
}

/** The expiry of a session. A call under way extends it, but never beyond `endsAt`. */
export function findExpiry(held: MemorySession): number {
  return Math.min(held.idleAt, held.endsAt);
}

/** Recomputes `idleAt`. Only leases that have not run out count as calls under way. */
export function updateIdleAt(held: MemorySession, now: number): void {
  held.idleAt = held.lastActiveAt + held.ttlSeconds * 1000;
  for (const { until } of held.leases.values()) if (until > now) held.idleAt = Math.max(held.idleAt, until);
}

export function touchSession(held: MemorySession, now: number): void {
  held.lastActiveAt = now;
  updateIdleAt(held, now);
}

/** Tells why a session is gone at this instant, swept or not; undefined while it lives. */
export function findGone(held: MemorySession | undefined, now: number): Gone | undefined {
  if (held === undefined || now >= held.endsAt + remainsMs) return { outcome: 'missing' };
  if (held.reason !== undefined && held.reason !== 'expired') return { outcome: 'ended', reason: held.reason };
  return held.reason === 'expired' || now >= findExpiry(held) ? { outcome: 'expired' } : undefined;
}

export function listHeldLeases({ leases }: MemorySession, now: number): HeldLease[] {
  return [...leases]
    .filter(([, { until, calls, places }]) => until > now && calls + places > 0)
    .map(([lease, { calls, places }]) => ({ lease, calls, places }));
}

export function countUnderWay(held: MemorySession, now: number): number {
  let count = 0;
  for (const lease of held.leases.values()) if (lease.until > now) count += lease.places;
  return count;
}
