import { createHash } from 'node:crypto';
import { setImmediate as nextTick } from 'node:timers/promises';
import { copyText } from '../../lib/text/copy-text.ts';
import { splitWords } from '../../lib/text/split-words.ts';
import type { Document } from '../../stores/documents.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { Page, SessionStore } from '../../stores/store.ts';
import type { Session, SessionEndReason } from '../session.ts';
import type { SessionTexts } from './rank-sessions.ts';

/** The members that name a session for good. All other facts come from the store: in a view of a session they differ. */
export type IndexedSession = Pick<Session, 'id' | 'userId' | 'createdAt'>;

/** The facts that decide who may find a session. `rootId` is the session at the top of its tree. */
export interface SearchedSession
  extends Pick<SessionRecord, 'id' | 'parentId' | 'trustLevel' | 'workspaceId' | 'agentId' | 'permissions'> {
  readonly rootId: string;
}

/** A search of a caller, with the limits of what the caller may see. */
export interface SessionQuery {
  readonly userId: string;
  /** Undefined finds sessions that work in no workspace. */
  readonly workspaceId: string | undefined;
  /** A blank text finds the newest sessions. */
  readonly text: string;
  /** Only sessions that lived at some time from `since` to `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** Only ended sessions, or only live ones. */
  readonly ended?: boolean | undefined;
  /** At most 50. */
  readonly limit: number;
  /** Asked before a session is compared with anything. Others change neither the results nor their order. */
  isVisible(session: SearchedSession): boolean;
  /** Whether the words of its messages are compared; by default they are. */
  readsMessages?(session: SearchedSession): boolean;
  readonly signal?: AbortSignal | undefined;
}

/** A session as the index stores it. */
export interface SessionDigest
  extends SearchedSession,
    SessionTexts,
    Pick<SessionRecord, 'version' | 'createdAt' | 'endsAt'> {
  readonly endedAt: number | null;
  readonly reason: SessionEndReason | null;
}

/** Notes about a session that the store does not have yet. */
export interface SessionNotes {
  isOpened: boolean;
  end: { readonly endedAt: number; readonly reason: SessionEndReason } | undefined;
  readonly tools: Set<string>;
  readonly files: Set<string>;
  /** The words of messages. */
  readonly messages: Set<string>;
}

export type IndexStore = Pick<SessionStore, 'documents' | 'list' | 'remains' | 'get'>;

/** Changed when earlier versions cannot read what this one writes. */
const format = 1;
/** The number of texts of a session that are kept. */
export const maxTexts = { tools: 200, files: 300, metadata: 200, messages: 1500 };
/** The size of a digest, and the room for its lists. Messages get what is left. */
export const maxDigestBytes = 49_152;
const room = { tools: 6144, files: 12_288, metadata: 4096, brackets: 100 };
const maxWordLength = 64;
const maxMetadataValues = 2000;
export const maxTreeDepth = 16;
const maxTries = 20;

/** The time for which ended sessions are kept, and the number of sessions for each user and workspace. */
export const retentionMs = 30 * 86_400_000;
const maxPerWorkspace = 1000;
/** One of so many sessions that are opened has old ones deleted. */
const openedPerPrune = 20;
/** The share of a full collection that stays, and the pause when nothing could be deleted. */
const keptShare = 0.95;
const restMs = 60_000;
const maxResting = 1000;
const maxSliceMs = 8;

const hashText = (text: string): string => createHash('sha256').update(text).digest('hex');
/** Hashes, so that no name of a user or workspace selects documents of another. */
export const collectionOf = (userId: string): string => `sessions-${hashText(userId).slice(0, 40)}`;
export const prefixOf = (workspaceId: string | null): string => `${hashText(workspaceId ?? '').slice(0, 16)}/`;
const keyOf = ({ workspaceId, id }: SessionRecord): string => prefixOf(workspaceId) + id;

export const createNotes = (): SessionNotes => ({
  isOpened: false,
  end: undefined,
  tools: new Set(),
  files: new Set(),
  messages: new Set(),
});

export function copyNotes({ tools, files, messages, ...rest }: SessionNotes): SessionNotes {
  return { ...rest, tools: new Set(tools), files: new Set(files), messages: new Set(messages) };
}

/** Removes notes that were written. Others may have been made meanwhile. */
export function removeNotes(notes: SessionNotes, written: SessionNotes): void {
  if (written.isOpened) notes.isOpened = false;
  if (written.end !== undefined) notes.end = undefined;
  for (const field of ['tools', 'files', 'messages'] as const) {
    for (const text of written[field]) notes[field].delete(text);
  }
}

export function hasNotes(notes: SessionNotes): boolean {
  return notes.isOpened || notes.end !== undefined || hasTexts(notes);
}

function hasTexts({ tools, files, messages }: SessionNotes): boolean {
  return tools.size + files.size + messages.size > 0;
}

/** Adds texts to a set that keeps the newest ones. */
export function addNewest(kept: Set<string>, texts: Iterable<string>, most: number): void {
  for (const text of texts) kept.add(text);
  for (const text of kept) {
    if (kept.size <= most) break;
    kept.delete(text);
  }
}

/** Adds the words of a text to a set that keeps the first ones. */
export function addWords(words: Set<string>, text: string, most: number): void {
  for (const word of splitWords(text)) {
    if (words.size >= most) break;
    words.add(cleanText(word.slice(0, maxWordLength)));
  }
}

/** Makes a text one that every store keeps. A part of a longer text is copied, so that it does not hold all of it. */
export function cleanText(text: string): string {
  return copyText(text.replace(/\p{Surrogate}|\u0000/gu, ''));
}

/** Adds notes to a digest. The end that was written first is the right one. */
export function addNotes(digest: SessionDigest, notes: SessionNotes): SessionDigest {
  const join = (before: readonly string[], texts: ReadonlySet<string>) => [...new Set([...before, ...texts])];
  return {
    ...digest,
    ...(digest.endedAt === null ? notes.end : {}),
    tools: join(digest.tools, notes.tools).slice(0, maxTexts.tools),
    files: join(digest.files, notes.files).slice(-maxTexts.files),
    messages: join(digest.messages, notes.messages).slice(0, maxTexts.messages),
  };
}

/** Creates the digest of a session from its record, with what an earlier digest knows. */
export function createDigest(
  record: SessionRecord,
  rootId: string,
  before: Partial<SessionDigest> = {},
): SessionDigest {
  const { id, version, name, parentId, workspaceId, agentId, trustLevel, permissions, createdAt, endsAt } = record;
  const { tools = [], files = [], messages = [], endedAt = null, reason = null } = before;
  const known = before.version === version ? before.metadata : undefined;
  const metadata = known ?? readMetadataWords(record.metadata);
  // Records from before there were tasks lack it.
  const facts = { id, version, name, task: record.task ?? null, parentId, rootId, workspaceId, agentId, trustLevel };
  return { ...facts, permissions, createdAt, endsAt, endedAt, reason, tools, files, metadata, messages };
}

function readMetadataWords(metadata: SessionRecord['metadata']): string[] {
  const words = new Set<string>();
  const rest: unknown[] = [metadata];
  for (let read = 0; rest.length > 0 && read < maxMetadataValues; read++) {
    const value = rest.pop();
    if (Array.isArray(value)) rest.push(...value.slice(0, maxMetadataValues));
    else if (typeof value === 'object' && value !== null) rest.push(...Object.entries(value).flat());
    else if (typeof value === 'string' || typeof value === 'number') addWords(words, String(value), maxTexts.metadata);
  }
  return [...words];
}

export function readDigest(text: string | undefined): SessionDigest | undefined {
  try {
    const read = JSON.parse(text ?? 'null') as (SessionDigest & { readonly format: number }) | null;
    return read?.format === format ? read : undefined;
  } catch {
    return undefined;
  }
}

function writeDigest({ tools, files, metadata, messages, ...facts }: SessionDigest): string {
  let left = maxDigestBytes - room.brackets - Buffer.byteLength(JSON.stringify(facts));
  const take = (texts: readonly string[], share: number): string[] => {
    let shareLeft = Math.min(share, left);
    const taken: string[] = [];
    for (const text of texts) {
      const bytes = Buffer.byteLength(JSON.stringify(text)) + 1;
      if (bytes > shareLeft) break;
      taken.push(text);
      shareLeft -= bytes;
      left -= bytes;
    }
    return taken;
  };
  const lists = {
    tools: take(tools, room.tools),
    // The newest files are the last ones.
    files: take([...files].reverse(), room.files).reverse(),
    metadata: take(metadata, room.metadata),
    messages: take(messages, left),
  };
  return JSON.stringify({ format, ...facts, ...lists });
}

/** Writes notes, together with those of other processes. Undefined if they could not be kept. */
export async function saveNotes(
  store: IndexStore,
  session: IndexedSession,
  notes: SessionNotes,
  makeRoom: () => Promise<boolean>,
): Promise<SessionDigest | undefined> {
  const collection = collectionOf(session.userId);
  for (let tries = 0; tries < maxTries; tries++) {
    const record = (await store.get(session.id)) ?? (await store.remains(session.id))?.record;
    if (record === undefined || !isSameSession(record, session)) return undefined;
    const key = keyOf(record);
    const found = await store.documents.get(collection, key);
    const read = readDigest(found?.text);
    // The digest of an earlier session with this id is replaced.
    const before = read?.createdAt === record.createdAt ? read : undefined;
    if (before !== undefined && before.version > record.version) continue;
    // The end alone is not written: the user may have been forgotten.
    if (before === undefined && !notes.isOpened && !hasTexts(notes)) return undefined;
    const digest = addNotes(createDigest(record, before?.rootId ?? (await findRoot(store, record)), before), notes);
    const text = writeDigest(digest);
    if (text === found?.text) return digest;
    const put = await store.documents.put(collection, key, text, { expectedVersion: found?.version ?? 0 });
    if (put.outcome === 'written') return digest;
    if (put.outcome === 'full' && (put.limit === 'textBytes' || !(await makeRoom()))) return undefined;
  }
  return undefined;
}

/** Tells whether a record is of this very session: after some time another one can have its id. */
export function isSameSession(record: SessionRecord, { id, userId, createdAt }: IndexedSession): boolean {
  return record.id === id && record.userId === userId && record.createdAt === createdAt;
}

/** Finds the session at the top of a tree, or the highest one that is still known. */
async function findRoot(store: IndexStore, record: SessionRecord): Promise<string> {
  let top = record;
  for (let depth = 0; top.parentId !== null && depth < maxTreeDepth; depth++) {
    const parent = (await store.get(top.parentId)) ?? (await store.remains(top.parentId))?.record;
    if (parent?.userId !== record.userId) return top.parentId;
    const digest = readDigest((await store.documents.get(collectionOf(parent.userId), keyOf(parent)))?.text);
    if (digest?.createdAt === parent.createdAt) return digest.rootId;
    top = parent;
  }
  return top.id;
}

interface PruneOptions {
  readonly prefix: string;
  /** The number of digests that may stay, of so many. */
  readonly keep: (total: number) => number;
  readonly now: number;
}

/** Deletes old digests of a workspace after some of the sessions that are opened there: the id decides which. */
export async function pruneAtTimes(store: IndexStore, session: IndexedSession, digest: SessionDigest, now: number) {
  if (Number.parseInt(hashText(session.id).slice(0, 8), 16) % openedPerPrune !== 0) return;
  await pruneDigests(store, session.userId, { prefix: prefixOf(digest.workspaceId), keep: () => maxPerWorkspace, now });
}

/** Creates a function that deletes the oldest digests of a user whose collection is full. False if all are needed. */
export function createRoomMaker(store: IndexStore, now: () => number): (userId: string) => Promise<boolean> {
  const restingUntil = new Map<string, number>();
  return async (userId) => {
    if ((restingUntil.get(userId) ?? 0) > now()) return false;
    const keep = (total: number) => Math.floor(total * keptShare);
    if ((await pruneDigests(store, userId, { prefix: '', keep, now: now() })) > 0) return true;
    if (restingUntil.size >= maxResting) restingUntil.clear();
    restingUntil.set(userId, now() + restMs);
    return false;
  };
}

/** Deletes digests of sessions that ended long ago and, if there are too many, of those that ended first. */
async function pruneDigests(store: IndexStore, userId: string, options: PruneOptions): Promise<number> {
  const collection = collectionOf(userId);
  const all: { key: string; version: number; id: string | undefined; endedAt: number }[] = [];
  for await (const { key, version, text } of eachDocument(store, collection, options.prefix)) {
    // A later version may have written one that cannot be read here.
    const { id, endedAt, endsAt = Number.POSITIVE_INFINITY } = readDigest(text) ?? {};
    all.push({ key, version, id, endedAt: endedAt ?? endsAt });
  }
  const live = new Set<string>();
  for await (const { id } of eachLiveSession(store, userId)) live.add(id);
  const ended = all.filter(({ id }) => id === undefined || !live.has(id)).sort((a, b) => a.endedAt - b.endedAt);
  const excess = all.length - options.keep(all.length);
  const due = ended.filter(({ endedAt }, index) => index < excess || endedAt < options.now - retentionMs);
  let deleted = 0;
  for (const { key, version } of due) {
    // One that was written meanwhile stays.
    const { outcome } = await store.documents.delete(collection, key, { expectedVersion: version });
    if (outcome === 'deleted') deleted++;
  }
  return deleted;
}

/** Reads documents page by page. Other work of the process goes on meanwhile. */
export async function* eachDocument(store: IndexStore, collection: string, prefix = ''): AsyncGenerator<Document> {
  const pause = createPause();
  for (let after: string | null | undefined; after !== null; ) {
    const page = { prefix, limit: 1000, ...(after === undefined ? {} : { after }) };
    const { documents, next } = await store.documents.list(collection, page);
    for (const document of documents) {
      await pause();
      yield document;
    }
    after = next;
  }
}

export async function* eachLiveSession(
  { list }: IndexStore,
  userId: string,
  workspaceId: string | null = null,
): AsyncGenerator<SessionRecord> {
  const pause = createPause();
  const filter = { userId, ...(workspaceId === null ? {} : { workspaceId }) };
  for (let after: string | null | undefined; after !== null; ) {
    const page: Page = await list(filter, { limit: 1000, ...(after === undefined ? {} : { after }) });
    for (const record of page.sessions) {
      await pause();
      yield record;
    }
    after = page.next;
  }
}

/** Creates a function that lets other work go first when this one has run for a while. */
export function createPause(): () => Promise<void> {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < maxSliceMs) return;
    await nextTick();
    since = performance.now();
  };
}
