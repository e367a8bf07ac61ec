import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { createGrants, type Grants } from './grants.ts';
import type { Quotas } from './quotas.ts';
import { goneBecause, type LeaveReason, type Session, sessionOf } from './session.ts';

/** The sessions at work in this process: a bounded number of copies, the ones used last. */
export interface HeldSessions {
  get(id: string): Session | undefined;
  all(): Session[];
  /** Holds what the store said; an older record than the one held changes nothing. */
  hold(record: SessionRecord): Session;
  /** The same for someone who is about to enter: until then it does not make room for others. */
  holdFor(record: SessionRecord): Session;
  /** For who enters; undefined when it is not held. */
  grantsOf(id: string): Grants | undefined;
  /** The store says that something about it is new: nothing granted before counts any more. */
  doubt(id: string): void;
  leave(id: string, reason: LeaveReason): void;
  usedToken(id: string, digest: string): void;
  /** Which of these further tokens was not used for longest. */
  idlestToken(id: string, digests: readonly string[]): number;
  close(reason: LeaveReason): Promise<void>;
}

export interface HeldOptions {
  readonly store: SessionStore;
  readonly now: () => number;
  readonly most: number;
  readonly quotas: () => Quotas;
  onRestricted(session: Session, before: Session): void;
  onLeft(session: Session, reason: LeaveReason): void;
}

interface Held {
  session: Session;
  readonly grants: Grants;
  expectedUntil: number;
  /** When each further token was last used, by its digest. */
  readonly tokenUse: Map<string, number>;
}

/** A further token is no narrower record. */
function isNarrower(session: Session, before: Session): boolean {
  return (['trustLevel', 'ttlSeconds', 'servers', 'permissions'] as const).some(
    (key) => String(session[key]) !== String(before[key]),
  );
}

const settleEveryMs = 200;
/** How long someone who is about to enter may take; a request that is refused before never does. */
const expectedMs = 2000;
/** Longer than any answer of the store is waited for. */
const lateAnswersMs = 5000;

export function createHeldSessions(options: HeldOptions): HeldSessions {
  const { store, now, most } = options;
  const held = new Map<string, Held>();
  /** Those with something to settle. */
  const active = new Set<Held>();
  /** When they left for good: what was read of them before that, and arrives now, must not bring them back. */
  const gone = new Map<string, number>();
  let closed = false;

  function enterHouse(session: Session): Held {
    const entry: Held = {
      session,
      expectedUntil: 0,
      tokenUse: new Map(),
      grants: createGrants({
        store,
        now,
        quotas: options.quotas,
        session: () => entry.session,
        outdated: (record) => void hold(record),
        gone: (why) => {
          const reason = why === 'missing' ? 'ended' : why;
          leave(session.id, reason);
          return goneBecause(reason);
        },
        active: () => void active.add(entry),
        reclaim: () => reclaim(entry.session),
      }),
    };
    if (closed || isGone(session.id)) {
      void entry.grants.close(goneBecause(closed ? 'unloaded' : 'ended'));
      return entry;
    }
    held.set(session.id, entry);
    if (held.size > most) makeRoom(session.id);
    return entry;
  }

  function isGone(id: string): boolean {
    const at = gone.get(id);
    return at !== undefined && now() - at < lateAnswersMs;
  }

  /** The oldest come first. */
  function forgetGone(): void {
    for (const [id, at] of gone) {
      if (now() - at < lateAnswersMs) return;
      gone.delete(id);
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
  function makeRoom(newcomer?: string): void {
    const at = now();
    const idle = [...held.values()].filter(({ grants, expectedUntil }) => grants.inFlight === 0 && at >= expectedUntil);
    idle.sort((a, b) => a.grants.lastUseAt - b.grants.lastUseAt);
    const surplus = held.size - most + Math.floor(most / 10);
    for (const { session } of idle.slice(0, surplus)) if (session.id !== newcomer) leave(session.id, 'unloaded');
  }

  function hold(record: SessionRecord): Session {
    const entry = held.get(record.id);
    if (entry === undefined) return enterHouse(sessionOf(record)).session;
    const before = entry.session;
    if (record.version <= before.version) return before;
    entry.session = sessionOf(record);
    entry.grants.withdraw();
    if (isNarrower(entry.session, before)) options.onRestricted(entry.session, before);
    return entry.session;
  }

  function leave(id: string, reason: LeaveReason): void {
    if (reason !== 'unloaded') gone.set(id, now());
    const entry = held.get(id);
    if (entry === undefined) return;
    held.delete(id);
    void entry.grants.close(goneBecause(reason));
    options.onLeft(entry.session, reason);
  }

  const timer = setInterval(() => {
    for (const entry of active) if (!entry.grants.settle()) active.delete(entry);
    // Those who were at work when room was needed may be idle now.
    if (held.size > most) makeRoom();
    forgetGone();
  }, settleEveryMs).unref();

  return {
    get: (id) => held.get(id)?.session,
    all: () => [...held.values()].map(({ session }) => session),
    hold,
    holdFor(record) {
      const session = hold(record);
      const entry = held.get(record.id);
      if (entry !== undefined) entry.expectedUntil = now() + expectedMs;
      return session;
    },
    grantsOf(id) {
      const entry = held.get(id);
      if (entry !== undefined) entry.expectedUntil = 0;
      return entry?.grants;
    },
    doubt: (id) => held.get(id)?.grants.withdraw(),
    leave,
    usedToken: (id, digest) => void held.get(id)?.tokenUse.set(digest, now()),
    idlestToken(id, digests) {
      const use = (digest: string) => held.get(id)?.tokenUse.get(digest) ?? 0;
      return digests.indexOf(digests.reduce((a, b) => (use(a) <= use(b) ? a : b)));
    },
    async close(reason) {
      clearInterval(timer);
      closed = true;
      const grants = [...held.values(), ...active].map((entry) => entry.grants);
      for (const id of [...held.keys()]) leave(id, reason);
      await Promise.all(grants.map((each) => each.close(goneBecause(reason))));
    },
  };
}
