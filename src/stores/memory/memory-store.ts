import {
  checkAdmission,
  checkChange,
  checkDocument,
  checkDocumentList,
  checkFilter,
  checkId,
  checkLease,
  checkNew,
  fitsDocument,
  isConflict,
  readCursor,
  writeCursor,
} from '../checks.ts';
import {
  type Document,
  type DocumentLimits,
  type Documents,
  defaultDocumentLimits,
  findListStart,
  maxPageBytes,
} from '../documents.ts';
import { type ChangeFeed, createChangeFeed } from '../feed.ts';
import { type Counters, countAheadMs, createLeaseId } from '../quota.ts';
import { applyChange, isRestricted, toBody } from '../record.ts';
import { bestMatches, isReference } from '../session-references.ts';
import { defaultResultLimits, defaultStateLimits, type SessionStore, type StoreOptions } from '../store.ts';
import { refuseWhenClosed, runEverySecond } from '../store-lifecycle.ts';
import { admitCall, type Ledger, settleLease } from './memory-admission.ts';
import { createMemoryInboxes } from './memory-inbox.ts';
import {
  countUnderWay,
  createMemorySessions,
  findGone,
  listHeldLeases,
  toRecord,
  updateIdleAt,
} from './memory-sessions.ts';
import { createMemoryMarks, createMemoryState } from './memory-state.ts';

interface Collection {
  version: number;
  readonly documents: Map<string, Document>;
}

const compareBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Opens a store whose sessions end with the process. */
export function openMemoryStore(options: StoreOptions = {}): SessionStore {
  const now = options.now ?? Date.now;
  const feed = createChangeFeed();
  const sessions = createMemorySessions(now, feed);
  const counters = new Map<string, Counters>();
  const ledger: Ledger = { counters, sessionsOf: sessions.listOwned };
  const lookup = { findLive: sessions.findLive, now };

  function sweepAll(): number {
    const at = now();
    const today = Math.floor(at / 86_400_000);
    for (const [name, { day, paceUs }] of counters) if (day < today && paceUs < at * 1000) counters.delete(name);
    return sessions.sweep();
  }

  const stop = options.now === undefined ? runEverySecond(async () => sweepAll()) : () => {};

  return refuseWhenClosed({
    kind: 'memory',
    capabilities: { durable: 'no', shared: 'process', whenFull: 'evict' },

    async create(session, caps = {}) {
      checkNew(session, caps);
      return sessions.create(session, caps);
    },

    async get(id) {
      checkId(id);
      const live = sessions.findLive(id);
      return 'outcome' in live ? undefined : toRecord(live);
    },

    async remains(id) {
      checkId(id);
      const live = sessions.find(id);
      const gone = findGone(live, now());
      if (live === undefined || gone === undefined || gone.outcome === 'missing') return undefined;
      return { record: toRecord(live), reason: gone.outcome === 'ended' ? gone.reason : 'expired' };
    },

    async update(id, expectedVersion, change) {
      checkId(id);
      checkChange(expectedVersion, change);
      const live = sessions.findLive(id);
      if ('outcome' in live) return live;
      const record = toRecord(live);
      if (record.version !== expectedVersion) return { outcome: 'stale', record };
      const next = applyChange(record, change);
      live.body = JSON.stringify(toBody(next));
      live.version = next.version;
      live.ttlSeconds = next.ttlSeconds;
      live.endsAt = next.endsAt;
      for (const lease of live.leases.values()) lease.until = Math.min(lease.until, next.endsAt);
      updateIdleAt(live, now());
      feed.publish({ kind: 'changed', id, version: next.version, restricted: isRestricted(record, next), here: true });
      return { outcome: 'updated', record: toRecord(live) };
    },

    async end(id, reason = 'ended') {
      checkId(id);
      const live = sessions.findLive(id);
      if ('outcome' in live) return false;
      sessions.remove(live, reason);
      return true;
    },

    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const { at, id, limit } = readCursor(page);
      const rest = sessions
        .list(filter)
        .filter((live) => live.createdAt > at || (live.createdAt === at && live.id > id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      const listed = rest.slice(0, limit);
      const last = listed.at(-1);
      const next = rest.length > limit && last !== undefined ? writeCursor(last) : null;
      return { sessions: listed.map(toRecord), next };
    },

    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      return bestMatches(sessions.list(filter), reference).map(toRecord);
    },

    async admit(request) {
      checkAdmission(request);
      const live = sessions.findLive(request.id);
      if ('outcome' in live) return live;
      return admitCall(live, request, ledger, createLeaseId(), now());
    },

    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      const live = sessions.findLive(id);
      const held = 'outcome' in live ? undefined : live.leases.get(lease);
      if ('outcome' in live || held === undefined || held.until <= now()) return false;
      held.until = Math.min(now() + holdMs, live.endsAt);
      settleLease(live, held, spent, ledger, now());
      return true;
    },

    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      const live = sessions.findLive(id);
      const held = 'outcome' in live ? undefined : live.leases.get(lease);
      if ('outcome' in live || held === undefined || held.until <= now()) return;
      live.leases.delete(lease);
      settleLease(live, held, spent, ledger, now());
    },

    async usage(id) {
      checkId(id);
      const live = sessions.findLive(id);
      if ('outcome' in live) return undefined;
      const { calls, bytes, paceUs } = live.counters;
      return {
        calls,
        bytes,
        underWay: countUnderWay(live, now()),
        aheadMs: countAheadMs(paceUs, now()),
        children: sessions.countChildren(id),
        leases: listHeldLeases(live, now()),
      };
    },

    state: createMemoryState(lookup, {
      limits: { ...defaultStateLimits, ...options.stateLimits },
      entriesOf: ({ state }) => state,
    }),
    results: createMemoryState(lookup, {
      limits: { ...defaultResultLimits, ...options.resultLimits },
      entriesOf: ({ results }) => results,
      onWritten: (id) => feed.publish({ kind: 'result', id, here: true }),
    }),
    marks: createMemoryMarks(lookup),
    inboxes: createMemoryInboxes(lookup, feed),
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

/** Counts the bytes of all documents but one. */
function countBytes({ documents }: Collection, except: string): number {
  let bytes = 0;
  for (const { key, text } of documents.values()) if (key !== except) bytes += Buffer.byteLength(text);
  return bytes;
}

function createMemoryDocuments(limits: DocumentLimits, feed: ChangeFeed): Documents {
  const collections = new Map<string, Collection>();

  function ensureCollection(name: string): Collection {
    const known = collections.get(name) ?? { version: 0, documents: new Map<string, Document>() };
    collections.set(name, known);
    return known;
  }

  return {
    async get(collection, key) {
      checkDocument(collection, key);
      const found = collections.get(collection)?.documents.get(key);
      return found && { ...found };
    },

    async put(collection, key, text, options = {}) {
      checkDocument(collection, key, options);
      const fits = fitsDocument(text, limits);
      const target = ensureCollection(collection);
      const version = target.documents.get(key)?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      if (!fits) return { outcome: 'full', limit: 'textBytes' };
      const max = Math.min(limits.documents, options.maxDocuments ?? limits.documents);
      const { maxBytes } = options;
      if (maxBytes !== undefined && countBytes(target, key) + Buffer.byteLength(text) > maxBytes)
        return { outcome: 'full', limit: 'totalBytes' };
      if (version === 0 && target.documents.size >= max) return { outcome: 'full', limit: 'documents' };
      target.version++;
      target.documents.set(key, { key, text, version: target.version });
      feed.publish({ kind: 'document', collection, key });
      return { outcome: 'written', version: target.version };
    },

    async delete(collection, key, options = {}) {
      checkDocument(collection, key, options);
      const documents = collections.get(collection)?.documents;
      const version = documents?.get(key)?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      if (!documents?.delete(key)) return { outcome: 'absent' };
      feed.publish({ kind: 'document', collection, key });
      return { outcome: 'deleted' };
    },

    async list(collection, options = {}) {
      checkDocumentList(collection, options);
      const { prefix = '', limit = 100 } = options;
      const from = findListStart(options);
      const keys = [...(collections.get(collection)?.documents.keys() ?? [])]
        .filter((key) => key.startsWith(prefix) && (from.self || compareBytes(key, from.key) > 0))
        .sort(compareBytes);
      const documents: Document[] = [];
      let bytes = 0;
      for (const key of keys) {
        if (documents.length === limit || bytes >= maxPageBytes) break;
        const found = collections.get(collection)?.documents.get(key) as Document;
        documents.push({ ...found });
        bytes += Buffer.byteLength(found.text);
      }
      return { documents, next: documents.length < keys.length ? (documents.at(-1)?.key ?? null) : null };
    },
  };
}
