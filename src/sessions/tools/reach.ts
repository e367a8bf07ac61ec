import { findClosest, findNearest } from '../../config/explain/suggest.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { readCursor, writeCursor } from '../../stores/checks.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { bestMatches, isReference, looseMatches } from '../../stores/session-references.ts';
import type { Page, SessionFilter, SessionStore } from '../../stores/store.ts';
import { isSuppliedId, sessionGoneError } from '../session.ts';
import { findDescendants } from '../session-writer.ts';
import { isWithinCeiling } from '../trust-bounds.ts';
import type { ToolCaller } from './tool.ts';

/**
 * The sessions that a caller can name. With a session's token, that is this session and its descendants. A user reaches
 * all sessions of the same user: the local user from a direct session, any other within the bounds of the credential.
 * Other sessions are not even read, so neither the answer nor its time tells of them.
 */
export interface SessionReach {
  /**
   * Finds a session by id, unique name, unique prefix, or `current`. A name may be written in other letter case or as its
   * number alone, unless `isExact`. Without a reference it is the caller's own session; a user, whose credential is bound
   * to no session, has to name one of several.
   */
  find(
    reference: string | undefined,
    caller: ToolCaller,
    options?: { readonly isExact?: boolean },
  ): Promise<SessionRecord>;
  /** Tells whether a text is the id of a session of this user, live or ended. */
  isIdOf(text: string, userId: string): Promise<boolean>;
  /** Lists the oldest first. */
  list(caller: ToolCaller, options: SessionListOptions): Promise<Page>;
}

/** The session that a reference in a call led to, for the journal. */
export interface SessionResolution {
  readonly caller: ToolCaller;
  readonly asked: string;
  /** Undefined if the reference was refused. */
  readonly sessionId?: string;
  /** The error code of the refusal. */
  readonly code?: string;
}

/** The length of a reference in the journal. No id or name is longer. */
const maxAskedLength = 200;

interface SessionListOptions {
  readonly workspaceId?: string | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The session that a reference means; or the names of the sessions that it may mean, or of those with similar names. */
export type SessionMatch =
  | { readonly record: SessionRecord }
  | { readonly record: undefined; readonly isAmbiguous: boolean; readonly candidates: readonly SessionRecord[] };

interface VisibleSessions {
  readonly sessions: readonly SessionRecord[];
  /** False if there are more, so that nobody can say whether a name is unique. */
  readonly isComplete: boolean;
}

interface MatchOptions {
  /** The sessions with this id, this name or this prefix that the caller may use. */
  readonly found: readonly SessionRecord[];
  /** Lists the sessions that the caller may use. */
  readonly listVisible: () => Promise<VisibleSessions>;
  readonly isExact?: boolean | undefined;
}

const pageSize = 50;
/** The number of sessions that are compared with a reference that names none exactly. */
const maxCompared = 1000;
const maxSuggested = 5;

/**
 * Decides which session a reference means. It never chooses between several. A number can be both the beginning of an id
 * and the number in a name, so that it is compared with both.
 */
export async function matchSession(
  reference: string,
  { found, listVisible, isExact = false }: MatchOptions,
): Promise<SessionMatch> {
  const [first] = found;
  const isSure = !/^\d+$/.test(reference) || first?.id === reference || first?.name === reference;
  if (first !== undefined && found.length === 1 && isSure) return { record: first };
  if (found.length > 1) return { record: undefined, isAmbiguous: true, candidates: found.slice(0, maxSuggested) };
  const { sessions, isComplete } = await listVisible();
  const loose = looseMatches(sessions, reference).filter(({ id }) => id !== first?.id);
  const fitting = [...found, ...loose];
  const [only] = fitting;
  if (only === undefined) {
    return { record: undefined, isAmbiguous: false, candidates: findSimilar(reference, sessions) };
  }
  const isAmbiguous = fitting.length > 1;
  if (!isAmbiguous && (first !== undefined || (isComplete && !isExact))) return { record: only };
  return { record: undefined, isAmbiguous, candidates: fitting.slice(0, maxSuggested) };
}

/** Finds sessions whose names have the same number, are few edits away, or begin or end the same. */
function findSimilar(reference: string, sessions: readonly SessionRecord[]): SessionRecord[] {
  const number = readNumber(reference);
  const byName = new Map(sessions.flatMap((each) => (each.name === null ? [] : [[each.name, each] as const])));
  const names = [...byName.keys()];
  const sameNumber = number === undefined ? [] : names.filter((name) => readNumber(name) === number);
  const nearest = [...findNearest(reference, names, maxSuggested), findClosest(reference, names) ?? ''];
  return [...new Set([...sameNumber, ...nearest])].slice(0, maxSuggested).flatMap((name) => byName.get(name) ?? []);
}

/** Reads the number at the end of a name, without leading zeros. */
function readNumber(name: string): string | undefined {
  return /^(?:.*\D)?0*(\d{1,40})$/.exec(name.slice(0, 512))?.[1];
}

/** Lists sessions for `matchSession`, up to the number that it compares. */
export async function listForMatch(
  list: SessionStore['list'],
  filter: SessionFilter,
  isVisible: (record: SessionRecord) => boolean = () => true,
): Promise<VisibleSessions> {
  const sessions: SessionRecord[] = [];
  let read = 0;
  let after: string | null = null;
  do {
    const page: Page = await list(filter, { limit: maxCompared - read, ...(after === null ? {} : { after }) });
    sessions.push(...page.sessions.filter(isVisible));
    read += page.sessions.length;
    after = page.next;
  } while (after !== null && read < maxCompared);
  return { sessions, isComplete: after === null };
}

export function createSessionReach(
  store: SessionStore,
  onResolution: (resolution: SessionResolution) => void = () => {},
): SessionReach {
  async function readOwn({ session }: ToolCaller): Promise<SessionRecord> {
    const record = await store.get(session.id);
    if (record !== undefined) return record;
    throw sessionGoneError((await store.remains(session.id))?.reason);
  }

  async function readFamily(caller: ToolCaller): Promise<SessionRecord[]> {
    const record = await readOwn(caller);
    return [record, ...(await findDescendants(store, record))];
  }

  async function reachesAnother(caller: ToolCaller): Promise<boolean> {
    const filter = { userId: caller.principal.userId };
    let after: string | null = null;
    do {
      const page: Page = await store.list(filter, { limit: pageSize, ...(after === null ? {} : { after }) });
      if (page.sessions.some((each) => each.id !== caller.session.id && isUsable(each, caller))) return true;
      after = page.next;
    } while (after !== null);
    return false;
  }

  async function search(reference: string, caller: ToolCaller): Promise<Omit<MatchOptions, 'isExact'>> {
    const userId = reachableUser(caller);
    if (userId === undefined) {
      const sessions = await readFamily(caller);
      return { found: bestMatches(sessions, reference), listVisible: async () => ({ sessions, isComplete: true }) };
    }
    const isVisible = (each: SessionRecord) => isUsable(each, caller);
    const found = (await store.find(reference, { userId })).filter(isVisible);
    return { found, listVisible: () => listForMatch(store.list, { userId }, isVisible) };
  }

  async function findNamed(reference: string, caller: ToolCaller, isExact: boolean): Promise<SessionRecord> {
    if (!isReference(reference)) throw sessionNotFoundError();
    const match = await matchSession(reference, { ...(await search(reference, caller)), isExact });
    if (match.record !== undefined) return match.record;
    const names = match.candidates.flatMap(({ name }) => (name === null ? [] : `"${name}"`)).join(', ');
    if (!match.isAmbiguous) throw sessionNotFoundError(names);
    throw new AmbitError('REQUEST_INVALID', {
      what: `Several of your sessions match that${names === '' ? '' : `: ${names}`}.`,
      hint: 'Pass the whole name or the full id, as shown by session_list.',
    });
  }

  return {
    async find(reference, caller, { isExact = false } = {}) {
      if (reference === undefined) {
        if (caller.principal.kind !== 'user' || !(await reachesAnother(caller))) return readOwn(caller);
        throw new AmbitError('REQUEST_INVALID', {
          what: 'Your key has access to several sessions, so the call must name one.',
          hint: 'Pass "session": "current" for the session of this call, or an id from session_list.',
        });
      }
      if (reference === 'current' || reference === caller.session.id) return readOwn(caller);
      const asked = reference.slice(0, maxAskedLength);
      try {
        const record = await findNamed(reference, caller, isExact);
        onResolution({ caller, asked, sessionId: record.id });
        return record;
      } catch (error) {
        onResolution({ caller, asked, code: isAmbitError(error) ? error.code : 'INTERNAL' });
        throw error;
      }
    },

    async isIdOf(text, userId) {
      if (!isSuppliedId(text)) return false;
      const record = (await store.get(text)) ?? (await store.remains(text))?.record;
      return record?.userId === userId;
    },

    async list(caller, { workspaceId, after, limit }) {
      const page = { limit, ...(after === undefined ? {} : { after }) };
      const userId = reachableUser(caller);
      if (userId !== undefined) {
        const filter = { userId, ...(workspaceId === undefined ? {} : { workspaceId }) };
        const { sessions, next } = await store.list(filter, page);
        return { sessions: sessions.filter((each) => isUsable(each, caller)), next };
      }
      const from = readCursor(page);
      const rest = (await readFamily(caller))
        .filter((record) => workspaceId === undefined || record.workspaceId === workspaceId)
        .filter(({ createdAt, id }) => createdAt > from.at || (createdAt === from.at && id > from.id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      const sessions = rest.slice(0, limit);
      const last = sessions.at(-1);
      return { sessions, next: rest.length > limit && last !== undefined ? writeCursor(last) : null };
    },
  };
}

/**
 * The user whose sessions the caller reaches. Undefined for those who reach only a session and its descendants:
 * anonymous callers are not one person, and a sandboxed session must not be left through another one.
 */
function reachableUser({ principal, session }: ToolCaller): string | undefined {
  if (principal.kind === 'user') return principal.userId;
  return principal.kind === 'local' && session.trustLevel === 'direct' ? session.userId : undefined;
}

/**
 * Whether the credential may use a session. A narrow one does not reach what a wider one of the same user has opened.
 */
function isUsable(record: SessionRecord, { principal }: ToolCaller): boolean {
  return principal.kind !== 'user' || isWithinCeiling(record, principal.ceiling);
}

/** The error names similar sessions, if there are any. They are sessions that the caller may use. */
export function sessionNotFoundError(similar = ''): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: `No session that you have access to has that id or name${similar === '' ? '.' : `; did you mean ${similar}?`}`,
    hint: 'Use "current", or list your sessions with session_list.',
  });
}
