import { AmbitError, isAmbitError } from '../../errors.ts';
import { readCursor, writeCursor } from '../../stores/checks.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { bestMatches, isReference } from '../../stores/session-references.ts';
import type { Page, SessionStore } from '../../stores/store.ts';
import { sessionGoneError } from '../session.ts';
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
   * Finds a session by id, unique name, unique prefix, or `current`. Without a reference it is the caller's own session; a
   * user, whose credential is bound to no session, has to name one of several.
   */
  find(reference: string | undefined, caller: ToolCaller): Promise<SessionRecord>;
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

const pageSize = 50;

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

  async function findNamed(reference: string, caller: ToolCaller): Promise<SessionRecord> {
    const userId = reachableUser(caller);
    const found =
      userId === undefined
        ? findMatches(await readFamily(caller), reference)
        : isReference(reference)
          ? (await store.find(reference, { userId })).filter((each) => isUsable(each, caller))
          : [];
    const [record] = found;
    if (record === undefined) throw sessionNotFoundError();
    if (found.length === 1) return record;
    throw new AmbitError('REQUEST_INVALID', {
      what: 'Several of your sessions match that.',
      hint: 'Pass the full id, as shown by session_list.',
    });
  }

  return {
    async find(reference, caller) {
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
        const record = await findNamed(reference, caller);
        onResolution({ caller, asked, sessionId: record.id });
        return record;
      } catch (error) {
        onResolution({ caller, asked, code: isAmbitError(error) ? error.code : 'INTERNAL' });
        throw error;
      }
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

function findMatches(sessions: readonly SessionRecord[], reference: string): readonly SessionRecord[] {
  return isReference(reference) ? bestMatches(sessions, reference) : [];
}

export function sessionNotFoundError(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'No session that you have access to has that id or name.',
    hint: 'Use "current", or list your sessions with session_list.',
  });
}
