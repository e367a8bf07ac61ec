import type { Admission, Limits, Spent } from '../../src/stores/admission.ts';
import type { JsonValue, NewSession, SessionChange } from '../../src/stores/record.ts';

const hour = 3_600_000;
const day = 86_400_000;

interface Lease {
  readonly session: ModelSession;
  until: number;
  places: number;
  /** Those of its calls that may be given back. */
  calls: number;
  readonly day: number;
  open: boolean;
}

interface ModelSession {
  readonly given: NewSession;
  readonly created: number;
  seen: number;
  idle: number;
  version: number;
  ttl: number;
  ends: number;
  permissions: readonly string[];
  ended: boolean;
  calls: number;
  bytes: number;
  stateVersion: number;
  state: { key: string; value: JsonValue; version: number; until: number | null }[];
  marks: { key: string; value: string }[];
}

/** How full something is: a bucket in microseconds that empties as time goes by; and what was used today. */
interface Account {
  level: number;
  at: number;
  calls: number;
  bytes: number;
  day: number;
}

/** The contract written down once more, as plainly as possible: arrays, no indexes, everything looked at each time. */
export function createModel(start: number) {
  let t = start;
  let sessions: ModelSession[] = [];
  const leases: Lease[] = [];
  const accounts: Record<string, Account> = {};
  let documents: { collection: string; key: string; text: string; version: number }[] = [];
  const documentVersions: Record<string, number> = {};

  const placesOf = (session: ModelSession) => leases.filter((lease) => lease.session === session && lease.open);
  const setIdle = (s: ModelSession) => {
    const held = placesOf(s).filter((lease) => t < lease.until);
    s.idle = Math.max(s.seen + s.ttl, ...held.map((lease) => lease.until));
  };
  const why = (s: ModelSession | undefined) => {
    if (s === undefined || t >= s.ends + hour) return 'missing';
    if (s.ended) return 'ended';
    return t >= s.idle || t >= s.ends ? 'expired' : 'live';
  };
  const byId = (id: string) => sessions.filter((s) => s.given.id === id).at(-1);
  const live = () => sessions.filter((s) => why(s) === 'live');
  const gone = (s: ModelSession | undefined) => {
    const word = why(s);
    return word === 'ended' ? { outcome: 'ended', reason: 'ended' } : { outcome: word };
  };
  const fresh = (s: ModelSession) => s.state.filter((entry) => entry.until === null || t < entry.until);

  function record(s: ModelSession) {
    const { lifetimeSeconds: _, ...given } = s.given;
    return {
      ...given,
      permissions: s.permissions,
      version: s.version,
      ttlSeconds: s.ttl / 1000,
      createdAt: s.created,
      lastActiveAt: s.seen,
      endsAt: s.ends,
      expiresAt: Math.min(s.idle, s.ends),
    };
  }

  function account(name: string): Account {
    accounts[name] ??= { level: 0, at: t, calls: 0, bytes: 0, day: 0 };
    const found = accounts[name];
    found.level = Math.max(0, found.level - (t - found.at) * 1000);
    found.at = t;
    const today = name.startsWith('session') ? 0 : Math.floor(t / day);
    if (found.day !== today) Object.assign(found, { calls: 0, bytes: 0, day: today });
    return found;
  }

  function readAheadMs(name: string): number {
    const { level = 0, at = t } = accounts[name] ?? {};
    return Math.ceil(Math.max(0, level - (t - at) * 1000) / 1000);
  }

  function underWay(fits: (s: ModelSession) => boolean): number {
    return leases
      .filter((l) => l.open && t < l.until && fits(l.session) && why(l.session) === 'live')
      .reduce((sum, lease) => sum + lease.places, 0);
  }

  const pace = (most: number) => Math.floor(60_000_000 / most);
  const isHeld = (lease: Lease) =>
    why(lease.session) === 'live' && byId(lease.session.given.id) === lease.session && lease.open && t < lease.until;

  function settle(lease: Lease, { bytes = 0, unusedCalls, agoMs = 0, limits = {} }: Spent) {
    const s = lease.session;
    const { id, userId, workspaceId } = s.given;
    const unused = Math.min(unusedCalls ?? 0, lease.calls);
    if (unusedCalls !== undefined) lease.calls = 0;
    s.seen = Math.max(s.seen, t - agoMs);
    setIdle(s);
    s.calls -= unused;
    s.bytes += bytes;
    for (const [scope, name] of [
      ['session', `session ${id}`],
      ['user', `user ${userId}`],
      ['workspace', `workspace ${workspaceId}`],
    ] as const) {
      if (accounts[name] === undefined) continue;
      const used = account(name);
      const most = limits[scope];
      used.bytes += bytes;
      if (scope === 'session' || (most !== undefined && lease.day === used.day)) {
        used.calls = Math.max(0, used.calls - unused);
      }
      if (most?.callsPerMinute !== undefined) {
        used.level = Math.max(0, used.level - unused * pace(most.callsPerMinute));
      }
    }
  }

  return {
    now: () => t,
    leases,
    advance: (ms: number) => {
      t += ms;
    },

    create(given: NewSession, perUser: number | undefined) {
      if (why(byId(given.id)) !== 'missing') return { outcome: 'exists', what: 'id' };
      const own = live().filter((s) => s.given.userId === given.userId);
      if (given.name !== null && own.some((s) => s.given.name === given.name))
        return { outcome: 'exists', what: 'name' };
      if (perUser !== undefined && own.length >= perUser) return { outcome: 'full', cap: 'perUser' };
      sessions = sessions.filter((s) => s.given.id !== given.id);
      delete accounts[`session ${given.id}`];
      const s: ModelSession = {
        given,
        created: t,
        seen: t,
        idle: t + given.ttlSeconds * 1000,
        version: 1,
        ttl: given.ttlSeconds * 1000,
        ends: t + given.lifetimeSeconds * 1000,
        permissions: given.permissions,
        ended: false,
        calls: 0,
        bytes: 0,
        stateVersion: 0,
        state: [],
        marks: [],
      };
      sessions.push(s);
      return { outcome: 'created', record: record(s) };
    },

    get: (id: string) => {
      const s = byId(id);
      return s !== undefined && why(s) === 'live' ? record(s) : undefined;
    },

    remains: (id: string) => {
      const s = byId(id);
      const reason = why(s);
      return s === undefined || reason === 'live' || reason === 'missing' ? undefined : { record: record(s), reason };
    },

    update(id: string, expected: number, change: SessionChange) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return gone(s);
      if (s.version !== expected) return { outcome: 'stale', record: record(s) };
      s.version++;
      s.permissions = change.permissions ?? s.permissions;
      s.ttl = (change.ttlSeconds ?? s.ttl / 1000) * 1000;
      if (change.endsAt !== undefined) s.ends = Math.max(change.endsAt, s.seen);
      for (const lease of placesOf(s)) lease.until = Math.min(lease.until, s.ends);
      setIdle(s);
      return { outcome: 'updated', record: record(s) };
    },

    end(id: string) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return false;
      s.ended = true;
      for (const lease of placesOf(s)) lease.open = false;
      return true;
    },

    list(userId: string | undefined) {
      const shown = live().filter((s) => userId === undefined || s.given.userId === userId);
      return shown.sort((a, b) => a.created - b.created || (a.given.id < b.given.id ? -1 : 1)).map(record);
    },

    named: (name: string, userId: string) =>
      live()
        .filter((s) => s.given.name === name && s.given.userId === userId)
        .map(record),

    admit(request: Admission) {
      const s = byId(request.id);
      if (s === undefined || why(s) !== 'live') return gone(s);
      if (request.version !== undefined && request.version !== s.version)
        return { outcome: 'stale', record: record(s) };
      const { calls = 1, bytes = 0, holdMs, limits = {} } = request;
      const places = holdMs === undefined ? 0 : (request.places ?? Math.min(calls, 1));
      const { userId, workspaceId } = s.given;
      const all = [
        {
          scope: 'session',
          name: `session ${request.id}`,
          limits: limits.session ?? {},
          busy: underWay((o) => o === s),
        },
        limits.user && {
          scope: 'user',
          name: `user ${userId}`,
          limits: limits.user,
          busy: underWay((o) => o.given.userId === userId),
        },
        workspaceId !== null && limits.workspace
          ? {
              scope: 'workspace',
              name: `workspace ${workspaceId}`,
              limits: limits.workspace,
              busy: underWay((o) => o.given.workspaceId === workspaceId),
            }
          : undefined,
      ].filter((each) => each !== undefined);
      const known = new Set(Object.keys(accounts));
      const found: { scope: string; limit: keyof Limits; wait: number }[] = [];
      for (const { scope, name, limits: most, busy } of all) {
        const used = account(name);
        const tomorrow = scope === 'session' ? Infinity : day - (t % day);
        const say = (limit: keyof Limits, wait: number) => found.push({ scope, limit, wait });
        if (most.totalCalls !== undefined && calls > 0 && used.calls + calls > most.totalCalls) {
          say('totalCalls', calls > most.totalCalls ? Infinity : tomorrow);
        }
        if (most.totalBytes !== undefined && calls + bytes > 0) {
          const over = used.bytes + bytes > most.totalBytes || used.bytes >= most.totalBytes;
          if (over) say('totalBytes', bytes > most.totalBytes ? Infinity : tomorrow);
        }
        if (most.concurrentCalls !== undefined && places > 0 && busy + places > most.concurrentCalls)
          say('concurrentCalls', Infinity);
        if (most.callsPerMinute !== undefined && calls > 0) {
          const burst = most.burst ?? most.callsPerMinute;
          const over = used.level + (calls - burst) * pace(most.callsPerMinute);
          if (over > 0) say('callsPerMinute', calls > burst ? Infinity : Math.ceil(over / 1000));
        }
      }
      const [longest] = [...found].sort((a, b) => (a.wait === b.wait ? 0 : b.wait - a.wait));
      if (longest !== undefined) {
        // Nothing was counted, so there is nothing that later reports could be added to.
        for (const { name } of all) if (!known.has(name)) delete accounts[name];
        const { scope, limit, wait } = longest;
        const allowed = all.find((each) => each.scope === scope)?.limits[limit];
        return { outcome: 'quota', scope, limit, allowed, retryAfterMs: wait === Infinity ? null : wait };
      }
      for (const { name, limits: most } of all) {
        const used = account(name);
        if (most.callsPerMinute !== undefined) used.level += calls * pace(most.callsPerMinute);
        used.calls += calls;
        used.bytes += bytes;
      }
      s.calls += calls;
      s.bytes += bytes;
      if (holdMs !== undefined) {
        const until = Math.min(t + holdMs, s.ends);
        leases.push({ session: s, until, places, calls, day: Math.floor(t / day), open: true });
      }
      s.seen = t;
      setIdle(s);
      return { outcome: 'admitted', version: s.version, lastActiveAt: t, expiresAt: record(s).expiresAt };
    },

    renew(lease: Lease, holdMs: number, spent: Spent) {
      if (!isHeld(lease)) return false;
      lease.until = Math.min(t + holdMs, lease.session.ends);
      lease.places = Math.min(lease.places, spent.places ?? lease.places);
      settle(lease, spent);
      return true;
    },

    release(lease: Lease, spent: Spent) {
      if (!isHeld(lease)) return;
      lease.open = false;
      settle(lease, spent);
    },

    usage(id: string) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return undefined;
      const held = placesOf(s).filter((lease) => t < lease.until && lease.calls + lease.places > 0);
      return {
        calls: s.calls,
        bytes: s.bytes,
        underWay: underWay((other) => other === s),
        aheadMs: readAheadMs(`session ${id}`),
        children: sessions.filter((other) => other.given.parentId === id && why(other) === 'live').length,
        leases: held.map(({ calls, places }) => `${calls} ${places}`).sort(),
      };
    },

    setState(id: string, key: string, value: JsonValue, expected: number | undefined, ttlMs: number | undefined) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return gone(s);
      const before = fresh(s).find((entry) => entry.key === key)?.version ?? 0;
      if (expected !== undefined && expected !== before) return { outcome: 'conflict', version: before };
      s.state = fresh(s).filter((entry) => entry.key !== key);
      s.stateVersion++;
      s.state.push({ key, value, version: s.stateVersion, until: ttlMs === undefined ? null : t + ttlMs });
      return { outcome: 'written', version: s.stateVersion };
    },

    state(id: string) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return [];
      return fresh(s).sort((a, b) => (a.key < b.key ? -1 : 1));
    },

    deleteState(id: string, key: string) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return gone(s);
      if (!fresh(s).some((entry) => entry.key === key)) return { outcome: 'absent' };
      s.state = s.state.filter((entry) => entry.key !== key);
      return { outcome: 'deleted' };
    },

    document: (collection: string, key: string) => {
      const found = documents.find((each) => each.collection === collection && each.key === key);
      return found && { key, text: found.text, version: found.version };
    },

    documents: (collection: string) =>
      documents
        .filter((each) => each.collection === collection)
        .sort((a, b) => (a.key < b.key ? -1 : 1))
        .map(({ collection: _, ...document }) => document),

    putDocument(collection: string, key: string, text: string, expected: number | undefined) {
      const version = this.document(collection, key)?.version ?? 0;
      if (expected !== undefined && expected !== version) return { outcome: 'conflict', version };
      const next = (documentVersions[collection] ?? 0) + 1;
      documentVersions[collection] = next;
      documents = documents.filter((each) => each.collection !== collection || each.key !== key);
      documents.push({ collection, key, text, version: next });
      return { outcome: 'written', version: next };
    },

    deleteDocument(collection: string, key: string, expected: number | undefined) {
      const version = this.document(collection, key)?.version ?? 0;
      if (expected !== undefined && expected !== version) return { outcome: 'conflict', version };
      if (version === 0) return { outcome: 'absent' };
      documents = documents.filter((each) => each.collection !== collection || each.key !== key);
      return { outcome: 'deleted' };
    },

    putMark(id: string, key: string, value: string) {
      const s = byId(id);
      if (s === undefined || why(s) !== 'live') return gone(s);
      const present = s.marks.find((mark) => mark.key === key);
      if (present !== undefined) return { outcome: 'present', value: present.value };
      s.marks.push({ key, value });
      return { outcome: 'put' };
    },
  };
}

export type Model = ReturnType<typeof createModel>;
