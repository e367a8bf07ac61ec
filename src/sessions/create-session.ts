import { randomBytes } from 'node:crypto';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { mintToken } from '../identity/token.ts';
import { formatCount } from '../lib/text/format-count.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { Created, SessionStore } from '../stores/store.ts';
import type { LoadedSessions } from './loaded-sessions.ts';
import { parentNotFound, restrictionForChild } from './parent-bounds.ts';
import { type CheckedDraft, newSessionOf, type Session, type SessionDraft, sessionOf } from './session.ts';
import type { SessionWriter } from './session-writer.ts';

/** How deep a tree of sessions may be below its root, and how many live children a session may have. */
export type ChildLimits = Pick<Config['sessions']['children'], 'maxDepth' | 'maxChildren'>;

export const defaultChildLimits: ChildLimits = { maxDepth: 3, maxChildren: 16 };

/** With a store in memory, `maxSessions` is the limit of all sessions; with any other, of loaded ones. */
export interface SessionBounds
  extends Pick<Config['sessions'], 'ttlSeconds' | 'maxLifetimeSeconds' | 'maxSessions' | 'maxPerUser'> {
  readonly children?: ChildLimits;
}

export interface CreatedSession {
  readonly session: Session;
  readonly token: string;
  readonly record: SessionRecord;
}

interface SessionCreationParts {
  readonly store: SessionStore;
  readonly bounds: SessionBounds;
  readonly loaded: LoadedSessions;
  readonly writer: Pick<SessionWriter, 'restrictWithin' | 'change' | 'end'>;
  readonly openedListeners: readonly ((session: Session) => void)[];
}

/** Creates the function that creates sessions from checked drafts. */
export function createSessionCreation(parts: SessionCreationParts): (draft: CheckedDraft) => Promise<CreatedSession> {
  const { store, bounds, loaded, writer, openedListeners } = parts;
  const { maxDepth, maxChildren } = bounds.children ?? defaultChildLimits;
  return async (draft) => {
    const id = draft.id ?? randomBytes(16).toString('hex');
    const { token, digest } = mintToken('ambs', id);
    const { ttlSeconds, maxLifetimeSeconds: lifetimeSeconds } = bounds;
    const given = newSessionOf(draft, { id, tokenDigests: [digest], ttlSeconds, lifetimeSeconds });
    const firstParent = await findParent(store, draft);
    if (firstParent !== undefined) await assertDepth(store, firstParent, maxDepth);
    const inAll = store.capabilities.whenFull === 'evict' ? { inAll: bounds.maxSessions } : {};
    const created = await store.create(given, { perUser: bounds.maxPerUser, perParent: maxChildren, ...inAll });
    if (created.outcome !== 'created') {
      throw creationError(created, draft, { maxPerUser: bounds.maxPerUser, maxChildren });
    }
    // The parent may have ended meanwhile, before this child was there to be ended with it.
    const parent = await findParent(store, draft).catch(async (error: unknown) => {
      await writer.end(id, 'ended');
      throw error;
    });
    let { record } = created;
    let session = loaded.load(record);
    if (parent !== undefined && restrictionForChild(parent, session) !== undefined) {
      // The parent was restricted meanwhile, and the child may already have children of its own.
      session = await writer.restrictWithin(id, parent);
      record = (await store.get(id)) ?? record;
    }
    if (parent !== undefined && session.endsAt > parent.endsAt) {
      // The clock of the store is not that of this machine.
      session = await writer.change(id, ({ endsAt }) => ({ endsAt: Math.min(endsAt, parent.endsAt) }));
      record = (await store.get(id)) ?? record;
    }
    for (const listener of openedListeners) listener(session);
    return { session, token, record };
  };
}

async function findParent(store: SessionStore, { parentId, userId }: CheckedDraft): Promise<Session | undefined> {
  if (parentId === undefined) return undefined;
  const record = await store.get(parentId);
  if (record?.userId !== userId) throw parentNotFound();
  return sessionOf(record);
}

/** Refuses a child that would be too far below the root of its tree. */
async function assertDepth(store: SessionStore, parent: Session, maxDepth: number): Promise<void> {
  let depth = 1;
  for (let id = parent.parentId; id !== undefined && depth <= maxDepth; depth++) {
    id = (await store.get(id))?.parentId ?? undefined;
  }
  if (depth <= maxDepth) return;
  throw new AmbitError('SESSION_LIMIT', {
    what: `Sessions can be nested ${formatCount(maxDepth, 'level')} deep, and the parent is on the last one.`,
    hint: 'Open the session from one that is higher in the tree.',
    rule: 'sessions.children.maxDepth',
  });
}

function creationError(
  created: Exclude<Created, { outcome: 'created' }>,
  { name }: SessionDraft,
  { maxPerUser, maxChildren }: { readonly maxPerUser: number; readonly maxChildren: number },
): AmbitError {
  if (created.outcome === 'exists') {
    return new AmbitError('SESSION_EXISTS', {
      what:
        created.what === 'name'
          ? `A live session of this user is already named "${name}".`
          : 'A session with that id already exists or existed before.',
    });
  }
  if (created.cap === 'perParent') {
    return new AmbitError('SESSION_LIMIT', {
      what: `The parent has reached the limit of ${formatCount(maxChildren, 'live child session')}.`,
      hint: 'End child sessions that are no longer needed.',
      rule: 'sessions.children.maxChildren',
    });
  }
  if (created.cap === 'inAll') return new AmbitError('SESSION_LIMIT');
  return new AmbitError('SESSION_LIMIT', {
    what: `This user has reached the limit of ${formatCount(maxPerUser, 'live session')}.`,
  });
}
