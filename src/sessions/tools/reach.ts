import { AmbitError } from '../../errors.ts';
import { pageAfter, readPage } from '../../stores/checks.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { bestMatches, isReference } from '../../stores/references.ts';
import type { Page, SessionFilter, SessionStore } from '../../stores/store.ts';
import { descendantsOf } from '../descendants.ts';
import { goneBecause } from '../session.ts';
import { isWithinCeiling } from '../trust-bounds.ts';
import type { ToolCaller } from './tool.ts';

/**
 * Which sessions a caller can name. Whoever holds a session's token reaches that session and its descendants; a user
 * reaches every session of the same user: the local user all of them, from a direct session, and any other those within
 * the credential's bounds. What lies beyond is as unknown as what never was: it is not even looked at, so neither the
 * answer nor its time tells of it.
 */
export interface Reach {
  /**
   * Finds a session by id, unique name, unique prefix, or `current`. Without a reference it is the caller's own session; a
   * user, whose credential is bound to no session, has to name one.
   */
  find(reference: string | undefined, caller: ToolCaller): Promise<SessionRecord>;
  /** The oldest first. */
  list(caller: ToolCaller, options: ListOptions): Promise<Page>;
}

export interface ListOptions {
  readonly workspaceId?: string | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
}

export function createReach(store: SessionStore): Reach {
  async function own({ session }: ToolCaller): Promise<SessionRecord> {
    const record = await store.get(session.id);
    if (record !== undefined) return record;
    throw goneBecause((await store.remains(session.id))?.reason);
  }

  async function family(caller: ToolCaller): Promise<SessionRecord[]> {
    const record = await own(caller);
    return [record, ...(await descendantsOf(store, record))];
  }

  return {
    async find(reference, caller) {
      if (reference === undefined) {
        if (caller.principal.kind === 'user') throw unnamed();
        return own(caller);
      }
      if (reference === 'current' || reference === caller.session.id) return own(caller);
      const userId = userOf(caller);
      const found =
        userId === undefined
          ? matches(await family(caller), reference)
          : isReference(reference)
            ? (await store.find(reference, { userId })).filter((each) => isUsable(each, caller))
            : [];
      const [record] = found;
      if (record === undefined) throw notFound();
      if (found.length === 1) return record;
      throw new AmbitError('REQUEST_INVALID', {
        what: 'Several of your sessions fit that.',
        hint: 'Give the whole id, as session_list shows it.',
      });
    },

    async list(caller, { workspaceId, after, limit }) {
      const page = { limit, ...(after === undefined ? {} : { after }) };
      const userId = userOf(caller);
      if (userId !== undefined) {
        const { sessions, next } = await store.list(filterOf({ userId, workspaceId }), page);
        return { sessions: sessions.filter((each) => isUsable(each, caller)), next };
      }
      const from = readPage(page);
      const rest = (await family(caller))
        .filter((record) => workspaceId === undefined || record.workspaceId === workspaceId)
        .filter(({ createdAt, id }) => createdAt > from.at || (createdAt === from.at && id > from.id))
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
      const sessions = rest.slice(0, limit);
      const last = sessions.at(-1);
      return { sessions, next: rest.length > limit && last !== undefined ? pageAfter(last) : null };
    },
  };
}

/**
 * Undefined for those who reach no more than a session and its descendants: anonymous callers are not one person, and
 * whoever was put into a sandboxed session must not get out of it through another.
 */
function userOf({ principal, session }: ToolCaller): string | undefined {
  if (principal.kind === 'user') return principal.userId;
  return principal.kind === 'local' && session.trustLevel === 'direct' ? session.userId : undefined;
}

/** A narrow credential does not reach what a wider one of the same user has opened. */
function isUsable(record: SessionRecord, { principal }: ToolCaller): boolean {
  return principal.kind !== 'user' || isWithinCeiling(record, principal.ceiling);
}

function matches(sessions: readonly SessionRecord[], reference: string): readonly SessionRecord[] {
  return isReference(reference) ? bestMatches(sessions, reference) : [];
}

function filterOf({ userId, workspaceId }: { userId: string; workspaceId: string | undefined }): SessionFilter {
  return { userId, ...(workspaceId === undefined ? {} : { workspaceId }) };
}

function unnamed(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'Your key can reach several sessions, so the call has to name one.',
    hint: 'Give "session": "current" for the one of this call, or an id as session_list shows it.',
  });
}

export function notFound(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'No session that you can reach is called that.',
    hint: 'Use "current", or ask session_list for those you can reach.',
  });
}
