import { AmbitError, isAmbitError } from '../../errors.ts';
import { createReaderTurns, type Reader } from '../../lib/async/reader-turns.ts';
import type { Document } from '../../stores/documents.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Lifecycle } from '../events/lifecycle.ts';
import type { SessionEndReason } from '../session.ts';
import { createPause, retentionMs } from './session-digests.ts';

/** A session that has ended, as the operator sees it. */
export interface EndedSession
  extends Pick<SessionRecord, 'id' | 'name' | 'userId' | 'agentId' | 'workspaceId' | 'parentId' | 'trustLevel'> {
  /** The beginning of its task. */
  readonly task: string | null;
  readonly createdAt: number;
  readonly endedAt: number;
  readonly reason: SessionEndReason;
}

/** Conditions on ended sessions. All that are given must hold. */
export interface EndedQuery {
  readonly userId?: string | undefined;
  readonly workspaceId?: string | undefined;
  readonly name?: string | undefined;
  /** The id of a session, or its beginning. */
  readonly id?: string | undefined;
  /** The earliest time of the end. */
  readonly since?: number | undefined;
  readonly limit: number;
  /** `next` of the page before. */
  readonly after?: string | undefined;
  /** Aborted when nobody waits for the page any more. Then it ends early. */
  readonly signal?: Pick<AbortSignal, 'aborted'> | undefined;
}

interface EndedPage {
  readonly sessions: readonly EndedSession[];
  readonly next: string | null;
}

/**
 * The sessions of all users that have ended, for the operator. They are documents of the store, so all gateways share
 * them. The entries of `session_search` do not serve for this: they are kept for each user, without an order in time.
 * Nor does the journal: it is of one machine, and its line about an end does not tell the rest.
 *
 * Each day (UTC) is a collection. Its keys begin with the time that was left of the day, so a listing begins with the
 * newest. The process that ended a session, or noticed that it expired, writes the entry.
 */
export interface EndedSessions {
  /** Lists them, newest first. A page may hold fewer than asked for; the last one has no `next`. */
  list(query: EndedQuery): Promise<EndedPage>;
  /** The same, for one reader after the other: a filter compares up to 10,000 entries. */
  listInTurn(query: EndedQuery, reader: Reader): Promise<EndedPage>;
  /** Deletes the entries of a user, and ignores the end of sessions that the user has opened so far. */
  forgetUser(userId: string): Promise<void>;
  /** Writes what is pending. */
  close(): Promise<void>;
}

interface EndedSessionsOptions {
  readonly store: Pick<SessionStore, 'documents' | 'remains'>;
  readonly lifecycle: Pick<Lifecycle, 'onStep'>;
  readonly now?: () => number;
  /** The most entries of one day. */
  readonly maxPerDay?: number;
}

interface EndedStep {
  readonly sessionId: string;
  readonly at: number;
}

const dayMs = 86_400_000;
const saveDelayMs = 200;
const retryMs = 5000;
/** Beyond this, the sessions that ended first are not listed. */
const maxPending = 10_000;
const defaultMaxPerDay = 10_000;
/** The share of a full day that is deleted. */
const droppedShare = 0.05;
const maxTaskLength = 1000;
/** The most entries that are read for one page. */
const maxRead = 10_000;
/** Days of which entries may still be there: no gateway ran for so long. */
const sweptDays = 30;
const sweepEveryMs = 3_600_000;
const maxForgotten = 1000;
const cursorPattern = /^(\d{4}-\d\d-\d\d)\/(\d{8}\/[a-z0-9-]{1,128})$/;

const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10);
const collectionOfDay = (day: string): string => `ended-sessions-${day}`;
const keyOf = ({ id, endedAt }: EndedSession): string =>
  `${String(dayMs - 1 - (endedAt % dayMs)).padStart(8, '0')}/${id}`;

export function createEndedSessions(options: EndedSessionsOptions): EndedSessions {
  const { store, lifecycle, now = Date.now, maxPerDay = defaultMaxPerDay } = options;
  const pending = new Map<string, EndedStep>();
  /** When users were removed. */
  const forgotten = new Map<string, number>();
  const runList = createReaderTurns('Too many searches of the ended sessions wait.');
  let last: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function enqueue(work: () => Promise<void>): Promise<void> {
    const done = last.then(work);
    last = done.catch(() => {});
    return done;
  }

  function saveLater(ms: number): void {
    if (isClosed) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      void enqueue(saveAll);
      sweepDaily();
    }, ms).unref();
  }

  /** Asks the store one thing after the other, so that it stays free for calls. */
  async function saveAll(): Promise<void> {
    for (const step of pending.values()) if ((await saveOne(step)) === 'later') return saveLater(retryMs);
  }

  async function saveOne(step: EndedStep): Promise<'done' | 'later'> {
    try {
      const entry = await readEnded(store, step);
      if (entry !== undefined && entry.createdAt > (forgotten.get(entry.userId) ?? -1)) await writeEntry(entry);
    } catch (error) {
      // An unavailable store is asked again later. Anything else that it refuses would be refused again.
      if (isAmbitError(error) && error.code === 'STORE_UNAVAILABLE') return 'later';
    }
    if (pending.get(step.sessionId) === step) pending.delete(step.sessionId);
    return 'done';
  }

  async function writeEntry(entry: EndedSession): Promise<void> {
    const collection = collectionOfDay(dayOf(entry.endedAt));
    const put = () => store.documents.put(collection, keyOf(entry), JSON.stringify(entry), { maxDocuments: maxPerDay });
    if ((await put()).outcome !== 'full') return;
    const keys: string[] = [];
    for await (const { key } of eachEntry(collection)) keys.push(key);
    // The first sessions of a day are the last ones of its listing.
    const dropped = keys.slice(-Math.max(1, Math.floor(maxPerDay * droppedShare)));
    for (const key of dropped) await store.documents.delete(collection, key);
    await put();
  }

  async function* eachEntry(collection: string, after?: string, limit = 1000): AsyncGenerator<Document> {
    const pause = createPause();
    for (let from: string | null | undefined = after; from !== null; ) {
      const page = await store.documents.list(collection, { limit, ...(from === undefined ? {} : { after: from }) });
      for (const document of page.documents) {
        await pause();
        yield document;
      }
      from = page.next;
    }
  }

  /** Deletes the days that are too old. */
  async function sweep(): Promise<void> {
    for (let age = 1; age <= sweptDays; age++) {
      const collection = collectionOfDay(dayOf(now() - retentionMs - age * dayMs));
      for await (const { key } of eachEntry(collection)) await store.documents.delete(collection, key);
    }
  }

  let sweptOn = '';
  function sweepDaily(): void {
    const day = dayOf(now());
    if (day === sweptOn || isClosed) return;
    sweptOn = day;
    enqueue(sweep).catch(() => {
      sweptOn = '';
    });
  }

  const sweepTimer = setInterval(sweepDaily, sweepEveryMs).unref();
  const stop = lifecycle.onStep(({ sessionId, type, here }) => {
    if (!here || sessionId === undefined || type === 'created' || type === 'restricted') return;
    pending.set(sessionId, { sessionId, at: now() });
    const [oldest = sessionId] = pending.keys();
    if (pending.size > maxPending) pending.delete(oldest);
    saveLater(saveDelayMs);
  });

  async function list(query: EndedQuery): Promise<EndedPage> {
    const isGone = () => query.signal?.aborted === true;
    if (isGone()) return { sessions: [], next: null };
    // The newest are asked for most.
    if (pending.size > 0 && !isClosed) await enqueue(saveAll);
    const found: EndedSession[] = [];
    const oldest = Math.max(query.since ?? 0, now() - retentionMs);
    const cursor = readCursorOf(query.after);
    const isFiltered = [query.userId, query.workspaceId, query.name, query.id].some((each) => each !== undefined);
    const size = isFiltered ? 1000 : query.limit;
    let [after, read] = [cursor?.key, 0];
    // A day more: the clocks of processes differ.
    const newest = now() + dayMs;
    // A cursor can name any day. Each day costs a question to the store, so days that cannot be there are left out.
    const first = cursor === undefined ? newest : Math.min(newest, Date.parse(cursor.day));
    for (let time = first; dayOf(time) >= dayOf(oldest); time -= dayMs) {
      const day = dayOf(time);
      for await (const { key, text } of eachEntry(collectionOfDay(day), after, size)) {
        if (isGone()) return { sessions: [], next: null };
        const entry = readEntry(text);
        if (entry !== undefined && entry.endedAt < oldest) return { sessions: found, next: null };
        if (entry !== undefined && matchesQuery(entry, query)) found.push(entry);
        if (found.length === query.limit || ++read === maxRead) return { sessions: found, next: `${day}/${key}` };
      }
      after = undefined;
    }
    return { sessions: found, next: null };
  }

  return {
    list,
    listInTurn: (query, reader) => runList(reader, () => list(query)),

    forgetUser(userId) {
      const at = now();
      if (forgotten.size >= maxForgotten) forgotten.delete([...forgotten.keys()][0] as string);
      forgotten.set(userId, at);
      return enqueue(async () => {
        for (let time = at + dayMs; time > at - retentionMs - dayMs; time -= dayMs) {
          const collection = collectionOfDay(dayOf(time));
          for await (const { key, text } of eachEntry(collection)) {
            if (readEntry(text)?.userId === userId) await store.documents.delete(collection, key);
          }
        }
      });
    },

    async close() {
      if (isClosed) return;
      isClosed = true;
      stop();
      clearTimeout(timer);
      clearInterval(sweepTimer);
      await enqueue(saveAll);
    },
  };
}

function readCursorOf(after: string | undefined): { readonly day: string; readonly key: string } | undefined {
  if (after === undefined) return undefined;
  const [, day = '', key = ''] = cursorPattern.exec(after) ?? [];
  if (!Number.isNaN(Date.parse(day))) return { day, key };
  throw new AmbitError('REQUEST_INVALID', {
    what: 'The page cursor is not valid.',
    hint: 'Pass "next" of the previous page unchanged, or leave it out for the first page.',
  });
}

/** Reads a session that has ended from what the store still has of it. */
async function readEnded(
  store: Pick<SessionStore, 'remains'>,
  { sessionId, at }: EndedStep,
): Promise<EndedSession | undefined> {
  const remains = await store.remains(sessionId);
  if (remains === undefined) return undefined;
  const { record, reason } = remains;
  const { id, name, userId, agentId, workspaceId, parentId, trustLevel, createdAt, endsAt, expiresAt } = record;
  const endedAt = reason === 'expired' ? Math.min(endsAt, expiresAt) : at;
  // Records from before there were tasks lack it.
  const task = record.task?.slice(0, maxTaskLength).replace(/\p{Surrogate}/gu, '') ?? null;
  return { id, name, userId, agentId, workspaceId, trustLevel, task, parentId, createdAt, endedAt, reason };
}

function readEntry(text: string): EndedSession | undefined {
  try {
    return JSON.parse(text) as EndedSession;
  } catch {
    return undefined;
  }
}

function matchesQuery(entry: EndedSession, { userId, workspaceId, name, id = '' }: EndedQuery): boolean {
  return (
    (userId === undefined || entry.userId === userId) &&
    (workspaceId === undefined || entry.workspaceId === workspaceId) &&
    (name === undefined || entry.name === name) &&
    entry.id.startsWith(id)
  );
}
