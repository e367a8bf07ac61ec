import { AmbitError, isAmbitError } from '../../errors.ts';
import { createFairLimit } from '../../lib/async/mutex.ts';
import { splitQuestion } from '../../lib/text/split-words.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { SessionEndReason } from '../session.ts';
import { matchTexts, type QuestionTerms, rankSessions, type TermMatch } from './rank-sessions.ts';
import {
  addNewest,
  addNotes,
  addWords,
  cleanText,
  collectionOf,
  copyNotes,
  createDigest,
  createNotes,
  createPause,
  createRoomMaker,
  eachDocument,
  eachLiveSession,
  hasNotes,
  type IndexedSession,
  type IndexStore,
  isSameSession,
  maxTexts,
  maxTreeDepth,
  prefixOf,
  pruneAtTimes,
  readDigest,
  removeNotes,
  retentionMs,
  type SessionDigest,
  type SessionNotes,
  type SessionQuery,
  saveNotes,
} from './session-digests.ts';

export type { IndexedSession, SearchedSession, SessionQuery } from './session-digests.ts';

export interface FoundSession extends Pick<SessionRecord, 'id' | 'name' | 'task' | 'agentId' | 'trustLevel'> {
  /** `ended` also if the store has forgotten why it is gone. */
  readonly state: 'live' | SessionEndReason;
  /** The words and values that were found, in one line without control characters; empty for a blank text. */
  readonly why: string;
  readonly createdAt: number;
  /** The time of the last use if no process noted the end; null while it lives, and if nobody knows the time. */
  readonly endedAt: number | null;
}

/**
 * The index by which live and ended sessions are found, by words and time. All processes share it through the store. A
 * note neither waits nor fails: it is written half a second later, and again when the store was unavailable.
 */
export interface SessionIndex {
  opened(session: IndexedSession): void;
  /** Only for a session that is gone for good. Of several processes, the first one decides about time and reason. */
  ended(session: IndexedSession, reason: SessionEndReason): void;
  noteTool(session: IndexedSession, name: string): void;
  noteFile(session: IndexedSession, path: string): void;
  /** Keeps the distinct words of a message and nothing else of it. */
  noteMessage(session: IndexedSession, text: string): void;
  /** Knows what this process has noted, written or not. Rejects with STORE_UNAVAILABLE. */
  search(query: SessionQuery): Promise<readonly FoundSession[]>;
  /** Deletes all that is stored about the sessions of a user. Later notes about live ones are stored again. */
  forgetUser(userId: string): Promise<void>;
  /** Writes what is pending. Later notes are ignored. */
  close(): Promise<void>;
}

export interface SessionIndexOptions {
  readonly store: IndexStore;
  readonly now?: () => number;
  /** The pause between the first unwritten note and writing; 500 by default. */
  readonly saveDelayMs?: number;
}

/** The notes of this process about a session. */
interface NotedSession {
  readonly session: IndexedSession;
  /** The tools and files that are noted already. To note them again costs one lookup. */
  readonly tools: Set<string>;
  readonly files: Set<string>;
  readonly unsaved: SessionNotes;
}

interface NotedSessions {
  find(session: IndexedSession): NotedSession;
  markChanged(noted: NotedSession): void;
  unsavedOf(session: IndexedSession): SessionNotes | undefined;
  forgetUser(userId: string): Promise<void>;
  close(): Promise<void>;
}

interface SessionHit extends TermMatch, Pick<SessionDigest, 'id' | 'createdAt'> {
  readonly isLive: boolean;
  readonly digest: Omit<SessionDigest, 'tools' | 'files' | 'metadata' | 'messages'>;
}

const maxToolLength = 128;
const maxPathLength = 256;
/** Longer messages are indexed by their beginning. */
const maxMessageLength = 16_384;

const defaultSaveDelayMs = 500;
const retryMs = 5000;
/** The number of sessions with unsaved notes, and with any. Beyond that the oldest notes are dropped. */
const maxChanged = 2000;
const maxNoted = 5000;

/** Searches at once, and those of one user that wait. */
const [maxSearches, maxWaiting] = [2, 16];
const maxQuestionLength = 500;
const maxResults = 50;
/** The most digests, and the most live sessions, that a search compares. */
const maxCompared = 2000;
/** The most results for which the store is asked when and why they ended. */
const maxLookups = 100;

export function createSessionIndex(options: SessionIndexOptions): SessionIndex {
  const { store, now = Date.now, saveDelayMs = defaultSaveDelayMs } = options;
  const noted = createNotedSessions({ store, now, saveDelayMs });
  const acquireSearch = createFairLimit(maxSearches, maxWaiting);

  return {
    opened(session) {
      const notes = noted.find(session);
      notes.unsaved.isOpened = true;
      noted.markChanged(notes);
    },
    ended(session, reason) {
      const notes = noted.find(session);
      notes.unsaved.end ??= { endedAt: now(), reason };
      noted.markChanged(notes);
    },
    noteTool(session, name) {
      const notes = noted.find(session);
      if (notes.tools.has(name) || notes.tools.size >= maxTexts.tools) return;
      const tool = cleanText(name.slice(0, maxToolLength));
      if (tool === '' || notes.tools.has(tool)) return;
      notes.tools.add(tool);
      notes.unsaved.tools.add(tool);
      noted.markChanged(notes);
    },
    noteFile(session, path) {
      const notes = noted.find(session);
      if (notes.files.has(path)) return;
      const file = cleanText(path.slice(-maxPathLength));
      if (file === '' || notes.files.has(file)) return;
      addNewest(notes.files, [file], maxTexts.files);
      addNewest(notes.unsaved.files, [file], maxTexts.files);
      noted.markChanged(notes);
    },
    noteMessage(session, text) {
      const notes = noted.find(session);
      const { messages } = notes.unsaved;
      const before = messages.size;
      addWords(messages, text.slice(0, maxMessageLength), maxTexts.messages);
      if (messages.size > before) noted.markChanged(notes);
    },
    async search(query) {
      const release = await acquireSearch(query.userId);
      if (release === undefined) throw new AmbitError('OVERLOADED', { what: 'Too many searches are waiting.' });
      try {
        return query.signal?.aborted === true ? [] : await searchSessions(store, query, noted.unsavedOf, now());
      } finally {
        release();
      }
    },
    forgetUser: noted.forgetUser,
    close: noted.close,
  };
}

/** Keeps notes until they are written. The store is asked one thing after the other, so that it stays free for calls. */
function createNotedSessions({ store, now, saveDelayMs }: Required<SessionIndexOptions>): NotedSessions {
  const byId = new Map<string, NotedSession>();
  const changed = new Map<string, NotedSession>();
  const makeRoom = createRoomMaker(store, now);
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
    }, ms).unref();
  }

  function drop(id: string): void {
    byId.delete(id);
    changed.delete(id);
  }

  async function saveAll(): Promise<void> {
    for (const notes of [...changed.values()]) {
      const { id } = notes.session;
      if (changed.get(id) !== notes) continue;
      try {
        await saveOne(notes);
      } catch (error) {
        // An unavailable store is asked again later. Anything else that it refuses would be refused again.
        if (isAmbitError(error) && error.code === 'STORE_UNAVAILABLE') return saveLater(retryMs);
        if (changed.get(id) === notes) drop(id);
      }
    }
  }

  async function saveOne(notes: NotedSession): Promise<void> {
    const { session, unsaved } = notes;
    const { id, userId } = session;
    const due = copyNotes(unsaved);
    const digest = await saveNotes(store, session, due, () => makeRoom(userId));
    removeNotes(unsaved, due);
    for (const tool of digest?.tools ?? []) notes.tools.add(tool);
    addNewest(notes.files, [...(digest?.files ?? []), ...unsaved.files], maxTexts.files);
    const isSaved = !hasNotes(unsaved);
    if (isSaved && changed.get(id) === notes) changed.delete(id);
    if (isSaved && due.end !== undefined && byId.get(id) === notes) byId.delete(id);
    if (digest !== undefined && due.isOpened) await pruneAtTimes(store, session, digest, now());
  }

  return {
    find(session) {
      const { id, userId, createdAt } = session;
      const found = byId.get(id);
      if (found?.session.createdAt === createdAt) return found;
      const known = { tools: new Set<string>(), files: new Set<string>() };
      const notes = { session: { id, userId, createdAt }, ...known, unsaved: createNotes() };
      // Late notes about an earlier session with this id are lost.
      if (found !== undefined && found.session.createdAt > createdAt) return notes;
      drop(id);
      for (const other of byId.keys()) {
        if (byId.size < maxNoted) break;
        if (!changed.has(other)) byId.delete(other);
      }
      byId.set(id, notes);
      return notes;
    },
    markChanged(notes) {
      const { id } = notes.session;
      if (isClosed || byId.get(id) !== notes) return;
      changed.set(id, notes);
      const [oldest = id] = changed.keys();
      if (changed.size > maxChanged) drop(oldest);
      saveLater(saveDelayMs);
    },
    unsavedOf({ id, userId, createdAt }) {
      const { session, unsaved } = changed.get(id) ?? {};
      return session?.userId === userId && session.createdAt === createdAt ? unsaved : undefined;
    },
    forgetUser: (userId) =>
      enqueue(async () => {
        for (const [id, { session }] of [...byId]) if (session.userId === userId) drop(id);
        const collection = collectionOf(userId);
        for await (const { key } of eachDocument(store, collection)) await store.documents.delete(collection, key);
      }),
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await enqueue(saveAll);
    },
  };
}

async function searchSessions(
  store: IndexStore,
  query: SessionQuery,
  unsavedOf: NotedSessions['unsavedOf'],
  now: number,
): Promise<FoundSession[]> {
  const text = query.text.slice(0, maxQuestionLength);
  const terms: QuestionTerms = new Map(splitQuestion(text).map((term, at) => [term, at]));
  if (terms.size === 0 && text.trim() !== '') return [];
  const hits: SessionHit[] = [];
  let total = 0;
  for await (const { digest, isLive } of eachDigest(store, query.userId, query.workspaceId ?? null, unsavedOf)) {
    if (!query.isVisible(digest) || !fitsTime(digest, isLive, query, now)) continue;
    total++;
    const isSilent = query.readsMessages?.(digest) === false;
    const match = matchTexts(isSilent ? { ...digest, messages: [] } : digest, terms);
    if (match === undefined) continue;
    const { tools, files, metadata, messages, ...facts } = digest;
    hits.push({ ...match, id: digest.id, createdAt: digest.createdAt, isLive, digest: facts });
  }
  const results: FoundSession[] = [];
  const limit = Math.min(query.limit, maxResults);
  let lookups = 0;
  for (const hit of rankSessions(hits, total)) {
    if (results.length >= limit) break;
    const isKnown = hit.isLive || hit.digest.endedAt !== null || lookups++ >= maxLookups;
    const found = isKnown ? describeHit(hit) : await readEnd(store, hit, query);
    if (found !== undefined) results.push(found);
  }
  return results;
}

/** Reads the sessions that a search compares: live ones as the store has them now, and those that ended. */
async function* eachDigest(
  store: IndexStore,
  userId: string,
  workspaceId: string | null,
  unsavedOf: NotedSessions['unsavedOf'],
): AsyncGenerator<{ readonly digest: SessionDigest; readonly isLive: boolean }> {
  const live = new Map<string, SessionRecord>();
  const roots = new Map<string, string>();
  const withNotes = (digest: SessionDigest): SessionDigest => {
    const notes = unsavedOf({ ...digest, userId });
    return notes === undefined ? digest : addNotes(digest, notes);
  };
  let read = 0;
  for await (const record of eachLiveSession(store, userId, workspaceId)) {
    if (record.workspaceId === workspaceId) live.set(record.id, record);
    if (++read === maxCompared) break;
  }
  read = 0;
  for await (const { text } of eachDocument(store, collectionOf(userId), prefixOf(workspaceId))) {
    const digest = readDigest(text);
    const record = digest && live.get(digest.id);
    const isEarlier = record !== undefined && record.createdAt !== digest?.createdAt;
    if (digest?.workspaceId === workspaceId && !isEarlier) {
      roots.set(digest.id, digest.rootId);
      const current = record === undefined ? digest : createDigest(record, digest.rootId, digest);
      yield { digest: withNotes(current), isLive: record !== undefined };
    }
    if (++read === maxCompared) break;
  }
  const pause = createPause();
  for (const record of live.values()) {
    if (roots.has(record.id)) continue;
    await pause();
    yield { digest: withNotes(createDigest(record, findLiveRoot(record, live, roots))), isLive: true };
  }
}

function findLiveRoot(
  record: SessionRecord,
  live: ReadonlyMap<string, SessionRecord>,
  roots: ReadonlyMap<string, string>,
): string {
  let { id, parentId } = record;
  for (let depth = 0; parentId !== null && depth < maxTreeDepth; depth++) {
    id = roots.get(parentId) ?? parentId;
    parentId = roots.has(parentId) ? null : (live.get(parentId)?.parentId ?? null);
  }
  return id;
}

/** Tells whether a session lived in the time that is asked for. One whose end is unknown may have lived to its limit. */
function fitsTime({ createdAt, endedAt, endsAt }: SessionDigest, isLive: boolean, query: SessionQuery, now: number) {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, ended = !isLive } = query;
  const end = isLive ? Number.POSITIVE_INFINITY : (endedAt ?? Math.min(endsAt, now));
  return ended !== isLive && createdAt <= until && end >= since && end >= now - retentionMs;
}

/** Describes a session whose end no process has noted. Undefined if it does not fit the query after all. */
async function readEnd(store: IndexStore, hit: SessionHit, query: SessionQuery): Promise<FoundSession | undefined> {
  const { id, createdAt, digest } = hit;
  const session = { id, createdAt, userId: query.userId };
  const remains = await store.remains(id);
  if (remains !== undefined && isSameSession(remains.record, session)) {
    const { endsAt, expiresAt, lastActiveAt } = remains.record;
    const latest = Math.min(endsAt, expiresAt);
    if (latest < (query.since ?? latest)) return undefined;
    const endedAt = remains.reason === 'expired' ? latest : lastActiveAt;
    return describeHit({ ...hit, digest: { ...digest, endedAt, reason: remains.reason } });
  }
  const record = await store.get(id);
  if (record === undefined || !isSameSession(record, session)) return describeHit(hit);
  // It was opened after the live ones had been read.
  if (query.ended === true || !query.isVisible({ ...record, rootId: digest.rootId })) return undefined;
  return describeHit({ ...hit, isLive: true });
}

function describeHit({ digest, isLive, why }: SessionHit): FoundSession {
  const { id, name, task, agentId, trustLevel, createdAt, endedAt, reason } = digest;
  const facts = { id, name, task, agentId, trustLevel, why, createdAt };
  return isLive ? { ...facts, state: 'live', endedAt: null } : { ...facts, state: reason ?? 'ended', endedAt };
}
