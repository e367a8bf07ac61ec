import { setImmediate as nextTick } from 'node:timers/promises';
import { AmbitError } from '../errors.ts';
import type { Documents } from '../stores/documents.ts';

interface SweepEndedOptions {
  readonly documents: Documents;
  /** A collection with one document per session, written after the session itself. */
  readonly collection: string;
  isEnded(sessionId: string): Promise<boolean>;
}

const pageSize = 100;

/** The number of documents per sweep; the next sweep continues there. */
const maxDocuments = 1000;

/** The pause after a sweep that found little. Ids are random, so little in one part means little in all. */
const restMs = 60_000;

const fewShare = 0.1;

/** Counts what sessions write in their lives, and limits it. */
export interface WriteQuota {
  /**
   * Reserves bytes and one entry, or throws WORKSPACE_FULL. They count as written until the reservation ends, so that
   * parallel writes cannot exceed the limit.
   */
  reserve(sessionId: string, bytes: number, limits: WriteLimits): Promise<QuotaReservation>;
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

interface QuotaReservation {
  /** Records the write and the number of files and folders made. */
  commit(entries: number): void;
  /** Frees the reservation. Has no effect after `commit`. */
  release(): void;
}

export type WriteQuotaOptions = Omit<SweepEndedOptions, 'collection'>;

export interface WriteLimits {
  readonly sessionBytes: number;
  readonly sessionEntries: number;
}

interface SessionCount {
  bytes: number;
  entries: number;
  /** Written but not stored yet. */
  unsavedBytes: number;
  unsavedEntries: number;
  /** Reserved by running writes. */
  reservedBytes: number;
  reservedEntries: number;
  /** The session has ended, so running writes are not stored any more. */
  isForgotten: boolean;
}

const collection = 'files-written';
/** Counters may lag by a second, which is twice this. */
const saveDelayMs = 500;
const maxCounts = 10_000;
/**
 * The pause before counts that the store had no room for are tried again, and the number of failures after which that
 * stops.
 */
const retryFullMs = 60_000;
const maxRefusals = 100;
const emptyCounts = { unsavedBytes: 0, unsavedEntries: 0, reservedBytes: 0, reservedEntries: 0, isForgotten: false };

export function createWriteQuota({ documents, isEnded }: WriteQuotaOptions): WriteQuota {
  const counts = new Map<string, Promise<SessionCount>>();
  const unsaved = new Map<string, SessionCount>();
  /** Counts that the store had no room for; they are kept in memory. */
  const withoutRoom = new Map<string, SessionCount>();
  const sweep = createEndedSessionSweep({ documents, collection, isEnded });
  let saveTimer: NodeJS.Timeout | undefined;
  let retryTimer: NodeJS.Timeout | undefined;
  let saving: Promise<void> = Promise.resolve();

  function loadCount(id: string): Promise<SessionCount> {
    let count = counts.get(id);
    if (count === undefined) {
      count = documents.get(collection, id).then((found) => ({ ...parseCount(found?.text), ...emptyCounts }));
      count.catch(() => counts.delete(id));
      // The least recently used counts are dropped and read again later.
      for (const other of counts.keys()) {
        if (counts.size < maxCounts) break;
        if (!unsaved.has(other) && !withoutRoom.has(other)) counts.delete(other);
      }
    }
    counts.delete(id);
    counts.set(id, count);
    return count;
  }

  /** Returns false when the store has no room. */
  async function saveCount(id: string, count: SessionCount): Promise<boolean> {
    const { unsavedBytes, unsavedEntries } = count;
    for (;;) {
      const found = await documents.get(collection, id);
      const before = parseCount(found?.text);
      const now = { bytes: before.bytes + unsavedBytes, entries: before.entries + unsavedEntries };
      const put = await documents.put(collection, id, JSON.stringify(now), { expectedVersion: found?.version ?? 0 });
      if (put.outcome === 'conflict') continue;
      if (put.outcome === 'written') {
        Object.assign(count, now);
        count.unsavedBytes -= unsavedBytes;
        count.unsavedEntries -= unsavedEntries;
        return true;
      }
      if (await isEnded(id)) {
        counts.delete(id);
        return true;
      }
      if (!(await sweep())) return false;
    }
  }

  async function trySave(id: string, count: SessionCount): Promise<boolean> {
    withoutRoom.delete(id);
    try {
      if (await saveCount(id, count)) return true;
      if (!count.isForgotten) withoutRoom.set(id, count);
    } catch {
      // An unavailable store is tried again later.
      if (!count.isForgotten) saveLater(id, count);
    }
    return false;
  }

  async function saveAll(): Promise<void> {
    saveTimer = undefined;
    const due = [...unsaved];
    unsaved.clear();
    for (const [id, count] of due) await trySave(id, count);
    if (withoutRoom.size > 0) retryTimer ??= schedule(retryWithoutRoom, retryFullMs);
  }

  async function retryWithoutRoom(): Promise<void> {
    retryTimer = undefined;
    let refusals = 0;
    for (const [id, count] of [...withoutRoom]) {
      if (refusals === maxRefusals) break;
      if (!(await trySave(id, count))) refusals++;
    }
    if (withoutRoom.size > 0) retryTimer ??= schedule(retryWithoutRoom, retryFullMs);
  }

  function schedule(work: () => Promise<void>, ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      saving = saving.then(work);
    }, ms).unref();
  }

  function saveLater(id: string, count: SessionCount): void {
    unsaved.set(id, count);
    saveTimer ??= schedule(saveAll, saveDelayMs);
  }

  return {
    async reserve(id, bytes, limits) {
      const count = await loadCount(id);
      const { sessionBytes, sessionEntries } = limits;
      if (count.bytes + count.unsavedBytes + count.reservedBytes + bytes > sessionBytes)
        throw quotaError(sessionBytes, 'bytes');
      if (count.entries + count.unsavedEntries + count.reservedEntries >= sessionEntries) {
        throw quotaError(sessionEntries, 'entries');
      }
      count.reservedBytes += bytes;
      count.reservedEntries++;
      let isHeld = true;
      const release = () => {
        if (!isHeld) return;
        isHeld = false;
        count.reservedBytes -= bytes;
        count.reservedEntries--;
      };
      return {
        release,
        commit(entries) {
          release();
          count.unsavedBytes += bytes;
          count.unsavedEntries += entries;
          if (!count.isForgotten) saveLater(id, count);
        },
      };
    },

    async forget(id) {
      const count = await counts.get(id)?.catch(() => undefined);
      if (count !== undefined) count.isForgotten = true;
      counts.delete(id);
      unsaved.delete(id);
      withoutRoom.delete(id);
      await saving;
      await documents.delete(collection, id).catch(() => {});
    },

    async close() {
      clearTimeout(saveTimer);
      await saving;
      await saveAll();
      await retryWithoutRoom();
      clearTimeout(retryTimer);
      retryTimer = undefined;
    },
  };
}

function parseCount(text: string | undefined): { bytes: number; entries: number } {
  return text === undefined ? { bytes: 0, entries: 0 } : (JSON.parse(text) as { bytes: number; entries: number });
}

function quotaError(limit: number, what: 'bytes' | 'entries'): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what:
      what === 'bytes'
        ? `This would exceed the limit of ${limit} bytes that the session may write.`
        : `The session has reached its limit of ${limit} files and folders.`,
    rule: `workspaces.*.files.${what === 'bytes' ? 'sessionBytes' : 'sessionEntries'}`,
    hint: 'Write less, or continue in another session. The operator can raise the limit.',
  });
}

/** Removes documents of ended sessions, and returns whether there were any. */
function createEndedSessionSweep(options: SweepEndedOptions): () => Promise<boolean> {
  const { documents, collection, isEnded } = options;
  let after: string | undefined;
  let restUntil = 0;
  let running: Promise<boolean> | undefined;

  async function sweepPage(): Promise<{ checked: number; freed: number; next: string | null }> {
    const listed = await documents.list(collection, { limit: pageSize, ...(after === undefined ? {} : { after }) });
    const freed = await Promise.all(
      listed.documents.map(async ({ key, version }) => {
        if (!(await isEnded(key))) return false;
        // A document written meanwhile is checked another time.
        return (await documents.delete(collection, key, { expectedVersion: version })).outcome === 'deleted';
      }),
    );
    return { checked: freed.length, freed: freed.filter(Boolean).length, next: listed.next };
  }

  async function sweep(): Promise<boolean> {
    let checked = 0;
    let freed = 0;
    // Continues where the last sweep stopped, and then from the beginning.
    for (let rounds = after === undefined ? 1 : 2; rounds > 0 && checked < maxDocuments; ) {
      const done = await sweepPage();
      checked += done.checked;
      freed += done.freed;
      after = done.next ?? undefined;
      if (done.next === null) rounds--;
      await nextTick();
    }
    if (freed <= checked * fewShare) restUntil = performance.now() + restMs;
    return freed > 0;
  }

  return async () => {
    if (running === undefined && performance.now() < restUntil) return false;
    running ??= sweep().finally(() => {
      running = undefined;
    });
    return running;
  };
}
