import { AmbitError } from '../errors.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { goneBecause } from './gone-because.ts';
import { createGrants, type Grants, type Quotas } from './grants.ts';
import { type LeaveReason, type Session, sessionOf } from './session.ts';

/** The sessions at work in this process: a bounded number of copies, the ones used last. */
export interface HeldSessions {
  get(id: string): Session | undefined;
  all(): Session[];
  /** Holds what the store said; an older record than the one held changes nothing. */
  hold(record: SessionRecord): Session;
  grantsOf(session: Session): Grants;
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

export function createHeldSessions(options: HeldOptions): HeldSessions {
  const { store, now, most } = options;
  const held = new Map<string, Held>();
  /** Those with something to settle. */
  const active = new Set<Grants>();

  function enterHouse(session: Session): Held {
    const entry: Held = {
      session,
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
        active: () => void active.add(entry.grants),
      }),
    };
    held.set(session.id, entry);
    if (held.size > most) makeRoom();
    return entry;
  }

  /** Several at once: looking for the idlest is not worth it for one. */
  function makeRoom(): void {
    const idle = [...held.values()].filter(({ grants }) => grants.inFlight === 0);
    idle.sort((a, b) => a.grants.lastUseAt - b.grants.lastUseAt);
    const surplus = held.size - most + Math.floor(most / 10);
    // The one that came just now is the youngest of all.
    for (const { session } of idle.slice(0, Math.min(surplus, idle.length - 1))) leave(session.id, 'unloaded');
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
    const entry = held.get(id);
    if (entry === undefined) return;
    held.delete(id);
    entry.grants.withdraw();
    void entry.grants.close();
    options.onLeft(entry.session, reason);
  }

  const timer = setInterval(() => {
    for (const grants of active) if (!grants.settle()) active.delete(grants);
  }, settleEveryMs).unref();

  return {
    get: (id) => held.get(id)?.session,
    all: () => [...held.values()].map(({ session }) => session),
    hold,
    grantsOf(session) {
      const entry = held.get(session.id);
      if (entry === undefined) throw new AmbitError('SESSION_ENDED');
      return entry.grants;
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
      const grants = [...held.values()].map((entry) => entry.grants);
      for (const id of [...held.keys()]) leave(id, reason);
      await Promise.all(grants.map((each) => each.close()));
    },
  };
}
