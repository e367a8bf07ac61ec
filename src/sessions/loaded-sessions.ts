import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { createGrants, type Grants } from './grants.ts';
import type { Quotas } from './quotas.ts';
import { goneBecause, type LeaveReason, type Session, sessionOf } from './session.ts';

/** The sessions at work in this process: a bounded number of copies, the ones used last. */
export interface LoadedSessions {
  get(id: string): Session | undefined;
  all(): Session[];
  /** Holds what the store said; an older record than the one held changes nothing. */
  load(record: SessionRecord): Session;
  /** The same for someone who is about to enter: until then it does not make room for others. */
  loadForRequest(record: SessionRecord): Session;
  /** For who enters; undefined when it is not held. */
  grantsOf(id: string): Grants | undefined;
  /** The store says that something about it is new: nothing granted before counts any more. */
  withdrawGrants(id: string): void;
  unload(id: string, reason: LeaveReason): void;
  noteTokenUse(id: string, digest: string): void;
  /** Which of these further tokens was not used for longest. */
  findIdlestToken(id: string, digests: readonly string[]): number;
  close(reason: LeaveReason): Promise<void>;
}

export interface LoadedSessionsOptions {
  readonly store: SessionStore;
  readonly now: () => number;
  readonly maxSessions: number;
  readonly quotas: () => Quotas;
  onRestricted(session: Session, before: Session): void;
  onLeft(session: Session, reason: LeaveReason): void;
}

interface LoadedSession {
  session: Session;
  readonly grants: Grants;
  expectedUntil: number;
  /** When each further token was last used, by its digest. */
  readonly tokenUsedAt: Map<string, number>;
}

/** A further token is no narrower record. */
function isRestricted(session: Session, before: Session): boolean {
  return (['trustLevel', 'ttlSeconds', 'servers', 'permissions'] as const).some(
    (key) => String(session[key]) !== String(before[key]),
  );
}

const settleEveryMs = 200;
/** How long someone who is about to enter may take; a request that is refused before never does. */
const expectedMs = 2000;
/** Longer than any answer of the store is waited for. */
const lateAnswerMs = 5000;

export function createLoadedSessions(options: LoadedSessionsOptions): LoadedSessions {
  const { store, now, maxSessions } = options;
  const loaded = new Map<string, LoadedSession>();
  /** Those with something to settle. */
  const active = new Set<LoadedSession>();
  /** When they left for good: what was read of them before that, and arrives now, must not bring them back. */
  const goneSince = new Map<string, number>();
  let closed = false;

  function addSession(session: Session): LoadedSession {
    const entry: LoadedSession = {
      session,
      expectedUntil: 0,
      tokenUsedAt: new Map(),
      grants: createGrants({
        store,
        now,
        quotas: options.quotas,
        session: () => entry.session,
        onOutdated: (record) => void loadRecord(record),
        onGone: (why) => {
          const reason = why === 'missing' ? 'ended' : why;
          unloadSession(session.id, reason);
          return goneBecause(reason);
        },
        onActive: () => void active.add(entry),
        reclaimIdleGrants: () => reclaim(entry.session),
      }),
    };
    if (closed || isGone(session.id)) {
      void entry.grants.close(goneBecause(closed ? 'unloaded' : 'ended'));
      return entry;
    }
    loaded.set(session.id, entry);
    if (loaded.size > maxSessions) unloadIdle(session.id);
    return entry;
  }

  function isGone(id: string): boolean {
    const at = goneSince.get(id);
    return at !== undefined && now() - at < lateAnswerMs;
  }

  /** The oldest come first. */
  function forgetGone(): void {
    for (const [id, at] of goneSince) {
      if (now() - at < lateAnswerMs) return;
      goneSince.delete(id);
    }
  }

  /** What lies idle here must not be the reason why a call of the same user or workspace is refused. */
  async function reclaim({ userId, workspaceId }: Session): Promise<boolean> {
    const related = [...active].filter(
      ({ session }) => session.userId === userId || (workspaceId !== undefined && session.workspaceId === workspaceId),
    );
    const given = related.flatMap(({ grants }) => grants.giveBackIdle());
    await Promise.all(given);
    return given.length > 0;
  }

  /** Several at once: looking for the idlest is not worth it for one. */
  function unloadIdle(newcomer?: string): void {
    const at = now();
    const idle = [...loaded.values()].filter(
      ({ grants, expectedUntil }) => grants.inFlight === 0 && at >= expectedUntil,
    );
    idle.sort((a, b) => a.grants.lastUseAt - b.grants.lastUseAt);
    const surplus = loaded.size - maxSessions + Math.floor(maxSessions / 10);
    for (const { session } of idle.slice(0, surplus))
      if (session.id !== newcomer) unloadSession(session.id, 'unloaded');
  }

  function loadRecord(record: SessionRecord): Session {
    const entry = loaded.get(record.id);
    if (entry === undefined) return addSession(sessionOf(record)).session;
    const before = entry.session;
    if (record.version <= before.version) return before;
    entry.session = sessionOf(record);
    entry.grants.withdraw();
    if (isRestricted(entry.session, before)) options.onRestricted(entry.session, before);
    return entry.session;
  }

  function unloadSession(id: string, reason: LeaveReason): void {
    if (reason !== 'unloaded') goneSince.set(id, now());
    const entry = loaded.get(id);
    if (entry === undefined) return;
    loaded.delete(id);
    void entry.grants.close(goneBecause(reason));
    options.onLeft(entry.session, reason);
  }

  const timer = setInterval(() => {
    for (const entry of active) if (!entry.grants.settle()) active.delete(entry);
    // Those who were at work when room was needed may be idle now.
    if (loaded.size > maxSessions) unloadIdle();
    forgetGone();
  }, settleEveryMs).unref();

  return {
    get: (id) => loaded.get(id)?.session,
    all: () => [...loaded.values()].map(({ session }) => session),
    load: loadRecord,
    loadForRequest(record) {
      const session = loadRecord(record);
      const entry = loaded.get(record.id);
      if (entry !== undefined) entry.expectedUntil = now() + expectedMs;
      return session;
    },
    grantsOf(id) {
      const entry = loaded.get(id);
      if (entry !== undefined) entry.expectedUntil = 0;
      return entry?.grants;
    },
    withdrawGrants: (id) => loaded.get(id)?.grants.withdraw(),
    unload: unloadSession,
    noteTokenUse: (id, digest) => void loaded.get(id)?.tokenUsedAt.set(digest, now()),
    findIdlestToken(id, digests) {
      const use = (digest: string) => loaded.get(id)?.tokenUsedAt.get(digest) ?? 0;
      return digests.indexOf(digests.reduce((a, b) => (use(a) <= use(b) ? a : b)));
    },
    async close(reason) {
      clearInterval(timer);
      closed = true;
      const grants = [...loaded.values(), ...active].map((entry) => entry.grants);
      for (const id of [...loaded.keys()]) unloadSession(id, reason);
      await Promise.all(grants.map((each) => each.close(goneBecause(reason))));
    },
  };
}
