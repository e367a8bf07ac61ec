import { randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import { digestsEqual, isWhole, mintToken, type PresentedToken, presentedToken } from '../identity/token.ts';
import type { TrustLevel } from '../trust/trust-level.ts';
import { narrowed } from './narrow.ts';
import {
  type EndReason,
  expiryOf,
  type Narrowing,
  type Session,
  type SessionDraft,
  type SessionView,
  viewOf,
} from './session.ts';
import { createTombstones } from './tombstones.ts';

export interface SessionBounds {
  readonly ttlSeconds: number;
  readonly maxLifetimeSeconds: number;
  readonly maxSessions: number;
  readonly maxPerUser: number;
}

export interface CheckedDraft extends SessionDraft {
  readonly userId: string;
  readonly trustLevel: TrustLevel;
}

export interface Sessions {
  /** `trustLevel` has been checked against its bounds before. */
  create(draft: CheckedDraft): { readonly session: Session; readonly token: string };
  /** The session that a token proves. UNAUTHENTICATED unless the secret verifies; then the exact reason it is gone. */
  prove(presented: PresentedToken | string): Session;
  get(id: string): Session | undefined;
  /** By id, by name, or by a prefix of the id that fits only one. */
  find(reference: string): Session | undefined;
  list(): SessionView[];
  view(session: Session): SessionView;
  /** Marks a request as under way: the session counts as active until `done` is called. */
  begin(session: Session): () => void;
  end(id: string, reason?: EndReason): boolean;
  /** Takes the place of the record, for good; whatever would widen it is refused. */
  restrict(id: string, change: Narrowing): Session;
  /** A further token for the same session. When there are too many, the one unused for longest stops working. */
  furtherToken(id: string): string;
  /** A session that another gateway keeps, for as long as that says; no token of it is known here. */
  adopt(view: SessionView): Session;
  onOpened(listener: (session: Session) => void): void;
  onEnded(listener: (session: Session, reason: EndReason) => void): void;
  onRestricted(listener: (session: Session, before: Session) => void): void;
  close(): void;
}

interface Live {
  session: Session;
  lastActiveAt: number;
  inFlight: number;
  /** When each further token was last used, by its digest. */
  readonly furtherUse: Map<string, number>;
}

const sweepEveryMs = 1000;
/** The first one stays as long as the session. */
export const mostTokens = 16;

/** Sessions in memory: the least that is honest until there are stores. */
export function createSessions(bounds: SessionBounds, now: () => number = Date.now): Sessions {
  const live = new Map<string, Live>();
  const gone = createTombstones();
  const openedListeners: ((session: Session) => void)[] = [];
  const endedListeners: ((session: Session, reason: EndReason) => void)[] = [];
  const restrictedListeners: ((session: Session, before: Session) => void)[] = [];

  function expired(entry: Live, at: number): boolean {
    return at >= entry.session.endsAt || (entry.inFlight === 0 && at >= expiryOf(entry.session, entry.lastActiveAt));
  }

  function current(id: string): Live | undefined {
    const entry = live.get(id);
    if (entry === undefined || !expired(entry, now())) return entry;
    finish(entry, 'expired');
    return undefined;
  }

  function finish(entry: Live, reason: EndReason): void {
    live.delete(entry.session.id);
    gone.bury(entry.session, reason);
    for (const listener of endedListeners) listener(entry.session, reason);
  }

  function sweep(): void {
    const at = now();
    for (const entry of [...live.values()]) if (expired(entry, at)) finish(entry, 'expired');
  }

  function makeRoom(userId: string, name: string | undefined): void {
    let ofUser = 0;
    for (const { session } of live.values()) {
      if (session.userId !== userId) continue;
      ofUser++;
      if (name !== undefined && session.name === name) {
        throw new AmbitError('SESSION_EXISTS', { what: `A live session of this user is already named "${name}".` });
      }
    }
    if (ofUser >= bounds.maxPerUser) {
      throw new AmbitError('SESSION_LIMIT', { what: `This user already has ${ofUser} live sessions.` });
    }
    if (live.size < bounds.maxSessions) return;
    // Looked for only when the house is full: keeping order at every call would cost more.
    let idlest: Live | undefined;
    for (const entry of live.values()) {
      if (entry.inFlight === 0 && entry.lastActiveAt < (idlest?.lastActiveAt ?? Number.POSITIVE_INFINITY))
        idlest = entry;
    }
    if (idlest === undefined) throw new AmbitError('SESSION_LIMIT');
    finish(idlest, 'evicted');
  }

  function present(id: string): Live {
    const entry = current(id);
    if (entry === undefined) throw new AmbitError('SESSION_NOT_FOUND');
    return entry;
  }

  function enter(session: Session, lastActiveAt: number): void {
    live.set(session.id, { session, lastActiveAt, inFlight: 0, furtherUse: new Map() });
    for (const listener of openedListeners) listener(session);
  }

  function proves({ session: { tokenDigests }, furtherUse }: Live, digest: string): boolean {
    for (let i = 0; i < tokenDigests.length; i++) {
      if (!digestsEqual(tokenDigests[i] as string, digest)) continue;
      if (i > 0) furtherUse.set(digest, now());
      return true;
    }
    return false;
  }

  const timer = setInterval(sweep, sweepEveryMs).unref();

  return {
    create(draft) {
      sweep();
      makeRoom(draft.userId, draft.name);
      const id = randomBytes(16).toString('hex');
      const { token, digest } = mintToken('ambs', id);
      const createdAt = now();
      const session: Session = Object.freeze({
        id,
        name: draft.name,
        userId: draft.userId,
        agentId: draft.agentId,
        workspaceId: draft.workspaceId,
        trustLevel: draft.trustLevel,
        servers: draft.servers === undefined ? undefined : Object.freeze([...draft.servers]),
        permissions: Object.freeze([...(draft.permissions ?? [])]),
        createdAt,
        ttlSeconds: draft.ttlSeconds ?? bounds.ttlSeconds,
        endsAt: createdAt + bounds.maxLifetimeSeconds * 1000,
        tokenDigests: Object.freeze([digest]),
      });
      enter(session, createdAt);
      return { session, token };
    },

    prove(presented) {
      const { token, id, digest } = typeof presented === 'string' ? presentedToken(presented) : presented;
      const entry = id === undefined ? undefined : current(id);
      if (entry !== undefined && proves(entry, digest)) return entry.session;
      const reason = id === undefined || !isWhole(token) ? undefined : gone.reasonFor(id, digest);
      if (reason === 'expired') throw new AmbitError('SESSION_EXPIRED');
      if (reason !== undefined) throw new AmbitError('SESSION_ENDED');
      throw new AmbitError('UNAUTHENTICATED');
    },

    get: (id) => current(id)?.session,

    find(reference) {
      sweep();
      const exact = live.get(reference);
      if (exact !== undefined) return exact.session;
      const all = [...live.values()].map((entry) => entry.session);
      const named = all.filter((session) => session.name === reference);
      if (named.length === 1) return named[0];
      const begins = reference.length < 4 ? [] : all.filter((session) => session.id.startsWith(reference));
      return begins.length === 1 ? begins[0] : undefined;
    },

    list() {
      sweep();
      return [...live.values()]
        .sort((a, b) => a.session.createdAt - b.session.createdAt)
        .map((entry) => viewOf(entry.session, entry.lastActiveAt));
    },

    view: (session) => viewOf(session, live.get(session.id)?.lastActiveAt ?? session.createdAt),

    begin(session) {
      const entry = live.get(session.id);
      if (entry === undefined) return () => {};
      entry.inFlight++;
      entry.lastActiveAt = now();
      let open = true;
      return () => {
        if (!open) return;
        open = false;
        entry.inFlight--;
        entry.lastActiveAt = now();
      };
    },

    end(id, reason = 'ended') {
      const entry = current(id);
      if (entry === undefined) return false;
      finish(entry, reason);
      return true;
    },

    restrict(id, change) {
      const entry = present(id);
      const before = entry.session;
      const after = narrowed(before, change);
      if (after === before) return before;
      entry.session = after;
      for (const listener of restrictedListeners) listener(after, before);
      return after;
    },

    furtherToken(id) {
      const entry = present(id);
      const { token, digest } = mintToken('ambs', id);
      const [first, ...further] = entry.session.tokenDigests;
      const use = (each: string) => entry.furtherUse.get(each) ?? 0;
      if (further.length >= mostTokens - 1) {
        const idlest = further.reduce((a, b) => (use(a) <= use(b) ? a : b));
        further.splice(further.indexOf(idlest), 1);
        entry.furtherUse.delete(idlest);
      }
      entry.furtherUse.set(digest, now());
      const tokenDigests = Object.freeze([...(first === undefined ? [] : [first]), ...further, digest]);
      entry.session = Object.freeze({ ...entry.session, tokenDigests });
      return token;
    },

    adopt(view) {
      const createdAt = Date.parse(view.createdAt);
      const session: Session = Object.freeze({
        id: view.id,
        name: view.name ?? undefined,
        userId: view.userId,
        agentId: view.agentId ?? undefined,
        workspaceId: view.workspaceId ?? undefined,
        trustLevel: view.trustLevel,
        servers: view.servers === null ? undefined : Object.freeze([...view.servers]),
        permissions: Object.freeze([...view.permissions]),
        createdAt,
        ttlSeconds: view.ttlSeconds,
        endsAt: createdAt + bounds.maxLifetimeSeconds * 1000,
        tokenDigests: Object.freeze([]),
      });
      enter(session, now());
      return session;
    },

    onOpened: (listener) => void openedListeners.push(listener),
    onEnded: (listener) => void endedListeners.push(listener),
    onRestricted: (listener) => void restrictedListeners.push(listener),

    close() {
      clearInterval(timer);
      for (const entry of [...live.values()]) finish(entry, 'closed');
    },
  };
}
