import {
  checkAdmission,
  checkChange,
  checkFilter,
  checkId,
  checkLease,
  checkNew,
  pageAfter,
  readPage,
} from '../check-arguments.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { createFeed } from '../feed.ts';
import { type Counters, nextLease } from '../quota.ts';
import { bodyOf, changed, isRestricted } from '../record.ts';
import { bestMatches, isReference } from '../session-references.ts';
import { defaultStateLimits, type SessionStore, type StoreOptions } from '../store.ts';
import { everySecond, refusingWhenClosed } from '../store-lifecycle.ts';
import { admitHeld, type Ledger, settleHeld } from './memory-admission.ts';
import { memoryDocuments } from './memory-documents.ts';
import { createMemorySessions, goneAt, recordOf, setIdle, underWay } from './memory-sessions.ts';
import { memoryMarks, memoryState } from './memory-state.ts';

/** Sessions that end with the process. */
export function openMemoryStore(options: StoreOptions = {}): SessionStore {
  const now = options.now ?? Date.now;
  const feed = createFeed();
  const sessions = createMemorySessions(now, feed);
  const counters = new Map<string, Counters>();
  const ledger: Ledger = { counters, sessionsOf: sessions.siblings };
  const reached = { reach: sessions.reach, now };

  function sweep(): number {
    const at = now();
    const today = Math.floor(at / 86_400_000);
    for (const [name, { day, paceUs }] of counters) if (day < today && paceUs < at * 1000) counters.delete(name);
    return sessions.sweep();
  }

  const stop = options.now === undefined ? everySecond(async () => sweep()) : () => {};

  return refusingWhenClosed({
    kind: 'memory',
    capabilities: { durable: 'no', shared: 'process', whenFull: 'evict' },

    async create(session, caps = {}) {
      checkNew(session, caps);
      return sessions.create(session, caps);
    },

    async get(id) {
      checkId(id);
      const held = sessions.reach(id);
      return 'outcome' in held ? undefined : recordOf(held);
    },

    async remains(id) {
      checkId(id);
      const held = sessions.any(id);
      const gone = goneAt(held, now());
      if (held === undefined || gone === undefined || gone.outcome === 'missing') return undefined;
      return { record: recordOf(held), reason: gone.outcome === 'ended' ? gone.reason : 'expired' };
    },

    async update(id, expectedVersion, change) {
      checkId(id);
      checkChange(expectedVersion, change);
      const held = sessions.reach(id);
      if ('outcome' in held) return held;
      const record = recordOf(held);
      if (record.version !== expectedVersion) return { outcome: 'stale', record };
      const next = changed(record, change);
      held.body = JSON.stringify(bodyOf(next));
      held.version = next.version;
      held.ttlSeconds = next.ttlSeconds;
      held.endsAt = next.endsAt;
      for (const lease of held.leases.values()) lease.until = Math.min(lease.until, next.endsAt);
      setIdle(held, now());
      feed.tell({ kind: 'changed', id, version: next.version, restricted: isRestricted(record, next), here: true });
      return { outcome: 'updated', record: recordOf(held) };
    },

    async end(id, reason = 'ended') {
      checkId(id);
      const held = sessions.reach(id);
      if ('outcome' in held) return false;
      sessions.bury(held, reason);
      return true;
    },

    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const { at, id, limit } = readPage(page);
      const rest = sessions
        .of(filter)
        .filter((held) => held.createdAt > at || (held.createdAt === at && held.id > id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      const shown = rest.slice(0, limit);
      const last = shown.at(-1);
      const next = rest.length > limit && last !== undefined ? pageAfter(last) : null;
      return { sessions: shown.map(recordOf), next };
    },

    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      return bestMatches(sessions.of(filter), reference).map(recordOf);
    },

    async admit(request) {
      checkAdmission(request);
      const held = sessions.reach(request.id);
      if ('outcome' in held) return held;
      return admitHeld(held, request, ledger, nextLease(), now());
    },

    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      const held = sessions.reach(id);
      const place = 'outcome' in held ? undefined : held.leases.get(lease);
      if ('outcome' in held || place === undefined || place.until <= now()) return false;
      place.until = Math.min(now() + holdMs, held.endsAt);
      settleHeld(held, place, spent, ledger, now());
      return true;
    },

    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      const held = sessions.reach(id);
      const place = 'outcome' in held ? undefined : held.leases.get(lease);
      if ('outcome' in held || place === undefined || place.until <= now()) return;
      held.leases.delete(lease);
      settleHeld(held, place, spent, ledger, now());
    },

    async usage(id) {
      checkId(id);
      const held = sessions.reach(id);
      if ('outcome' in held) return undefined;
      return { calls: held.counters.calls, bytes: held.counters.bytes, underWay: underWay(held, now()) };
    },

    state: memoryState(reached, { ...defaultStateLimits, ...options.stateLimits }),
    marks: memoryMarks(reached),
    documents: memoryDocuments({ ...defaultDocumentLimits, ...options.documentLimits }, feed),
    watch: feed.watch,
    sweep: async () => sweep(),
    ping: async () => {},
    async close() {
      stop();
      feed.close();
    },
  });
}
