import {
  checkAdmission,
  checkChange,
  checkFilter,
  checkId,
  checkLease,
  checkNewSession,
  pageAfter,
  readPage,
} from '../check-arguments.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { createChangeFeed } from '../feed.ts';
import { type Counters, createLeaseId } from '../quota.ts';
import { applyChange, isRestricted, pickBody } from '../record.ts';
import { bestMatches, isReference } from '../session-references.ts';
import { defaultStateLimits, type SessionStore, type StoreOptions } from '../store.ts';
import { refuseWhenClosed, repeatEverySecond } from '../store-lifecycle.ts';
import { admitSession, type QuotaLedger, settleLease } from './memory-admission.ts';
import { createMemoryDocuments } from './memory-documents.ts';
import { countUnderWay, createMemorySessions, findGone, toRecord, updateIdleAt } from './memory-sessions.ts';
import { createMemoryMarks, createMemoryState } from './memory-state.ts';

/** Opens a store whose sessions end with the process. */
export function openMemoryStore(options: StoreOptions = {}): SessionStore {
  const now = options.now ?? Date.now;
  const feed = createChangeFeed();
  const sessions = createMemorySessions(now, feed);
  const counters = new Map<string, Counters>();
  const ledger: QuotaLedger = { counters, sessionsOf: sessions.listOwned };
  const lookup = { findLive: sessions.findLive, now };

  function sweepAll(): number {
    const at = now();
    const today = Math.floor(at / 86_400_000);
    for (const [name, { day, paceUs }] of counters) if (day < today && paceUs < at * 1000) counters.delete(name);
    return sessions.sweep();
  }

  const stop = options.now === undefined ? repeatEverySecond(async () => sweepAll()) : () => {};

  return refuseWhenClosed({
    kind: 'memory',
    capabilities: { durable: 'no', shared: 'process', whenFull: 'evict' },

    async create(session, caps = {}) {
      checkNewSession(session, caps);
      return sessions.create(session, caps);
    },

    async get(id) {
      checkId(id);
      const held = sessions.findLive(id);
      return 'outcome' in held ? undefined : toRecord(held);
    },

    async remains(id) {
      checkId(id);
      const held = sessions.find(id);
      const gone = findGone(held, now());
      if (held === undefined || gone === undefined || gone.outcome === 'missing') return undefined;
      return { record: toRecord(held), reason: gone.outcome === 'ended' ? gone.reason : 'expired' };
    },

    async update(id, expectedVersion, change) {
      checkId(id);
      checkChange(expectedVersion, change);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const record = toRecord(held);
      if (record.version !== expectedVersion) return { outcome: 'stale', record };
      const next = applyChange(record, change);
      held.body = JSON.stringify(pickBody(next));
      held.version = next.version;
      held.ttlSeconds = next.ttlSeconds;
      held.endsAt = next.endsAt;
      for (const lease of held.leases.values()) lease.until = Math.min(lease.until, next.endsAt);
      updateIdleAt(held, now());
      feed.publish({ kind: 'changed', id, version: next.version, restricted: isRestricted(record, next), here: true });
      return { outcome: 'updated', record: toRecord(held) };
    },

    async end(id, reason = 'ended') {
      checkId(id);
      const held = sessions.findLive(id);
      if ('outcome' in held) return false;
      sessions.remove(held, reason);
      return true;
    },

    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const { at, id, limit } = readPage(page);
      const rest = sessions
        .list(filter)
        .filter((held) => held.createdAt > at || (held.createdAt === at && held.id > id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      const shown = rest.slice(0, limit);
      const last = shown.at(-1);
      const next = rest.length > limit && last !== undefined ? pageAfter(last) : null;
      return { sessions: shown.map(toRecord), next };
    },

    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      return bestMatches(sessions.list(filter), reference).map(toRecord);
    },

    async admit(request) {
      checkAdmission(request);
      const held = sessions.findLive(request.id);
      if ('outcome' in held) return held;
      return admitSession(held, request, ledger, createLeaseId(), now());
    },

    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      const held = sessions.findLive(id);
      const place = 'outcome' in held ? undefined : held.leases.get(lease);
      if ('outcome' in held || place === undefined || place.until <= now()) return false;
      place.until = Math.min(now() + holdMs, held.endsAt);
      settleLease(held, place, spent, ledger, now());
      return true;
    },

    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      const held = sessions.findLive(id);
      const place = 'outcome' in held ? undefined : held.leases.get(lease);
      if ('outcome' in held || place === undefined || place.until <= now()) return;
      held.leases.delete(lease);
      settleLease(held, place, spent, ledger, now());
    },

    async usage(id) {
      checkId(id);
      const held = sessions.findLive(id);
      if ('outcome' in held) return undefined;
      return { calls: held.counters.calls, bytes: held.counters.bytes, underWay: countUnderWay(held, now()) };
    },

    state: createMemoryState(lookup, { ...defaultStateLimits, ...options.stateLimits }),
    marks: createMemoryMarks(lookup),
    documents: createMemoryDocuments({ ...defaultDocumentLimits, ...options.documentLimits }, feed),
    watch: feed.watch,
    sweep: async () => sweepAll(),
    ping: async () => {},
    async close() {
      stop();
      feed.close();
    },
  });
}
