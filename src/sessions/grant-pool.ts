import type { AmbitError } from '../errors.ts';
import type { Grant, GrantOptions, Grants } from './grants.ts';
import { type GrantSize, maxGrantFor, maxGrantSize, type Quotas } from './quotas.ts';

/** The grants that this process holds for one session. */
export interface GrantPool extends Pick<Grants, 'withdraw' | 'settle' | 'giveBackIdle' | 'close' | 'report' | 'held'> {
  release(grant: Grant, counted: boolean, bytes: number, isUnused?: boolean): Promise<void> | undefined;
  take(counted: boolean): Grant | undefined;
  /** Adds what the store granted. A grant that was asked for before the last withdrawal is given back at once. */
  add(grant: Grant, asked: { readonly counted: boolean; readonly at: number; readonly asked: number }): void;
  /** The size of the next grant, for so many who wait. */
  nextSize(limits: Quotas, waiting: number): GrantSize;
  /** Makes the next grant larger when the current one was used up before its time. */
  growCurrent(): void;
  resetSize(): void;
  // Functions instead of getters: with a getter of its own, V8 gives each object another shape, and is slow at those.
  /** Counts the withdrawals. */
  generation(): number;
  closed(): AmbitError | undefined;
  inFlight(): number;
  lastUseAt(): number;
}

/** The store lets go of a lease by itself after this long. */
export const holdMs = 30_000;
export const renewEveryMs = 10_000;

export function createGrantPool(options: GrantOptions): GrantPool {
  const { now } = options;
  const grants = new Set<Grant>();
  const returns = createGrantReturns(options);
  let current: Grant | undefined;
  let closed: AmbitError | undefined;
  let calls = 1;
  let places = 1;
  let inFlight = 0;
  let lastUseAt = now();
  let generation = 0;

  function findUsable(counted: boolean, at: number): Grant | undefined {
    if (current !== undefined && hasRoom(current, counted, at)) return current;
    for (const grant of grants) if (hasRoom(grant, counted, at)) return grant;
    return undefined;
  }

  function grow(grant: Grant): void {
    if (grant.isOutgrown) return;
    grant.isOutgrown = grant.calls === 0;
    if (grant.calls === 0) calls = Math.min(calls * 2, maxGrantSize);
    if (grant.busy === grant.places) places = Math.min(places * 2, maxGrantSize);
  }

  function giveBack(grant: Grant): Promise<void> {
    if (grant.isSettled) return Promise.resolve();
    grant.isSettled = true;
    grants.delete(grant);
    if (current === grant) current = undefined;
    return returns.giveBack(grant);
  }

  function withdraw(): void {
    generation++;
    for (const grant of grants) {
      grant.usableUntil = 0;
      if (grant.inFlight === 0) void giveBack(grant);
    }
  }

  return {
    take(counted) {
      const at = now();
      const grant = findUsable(counted, at);
      if (grant === undefined) return undefined;
      if (counted) {
        grant.calls--;
        grant.busy++;
      }
      grant.inFlight++;
      inFlight++;
      grant.lastUseAt = at;
      lastUseAt = at;
      return grant;
    },

    add(grant, { counted, at, asked }) {
      grants.add(grant);
      options.onActive();
      if (asked !== generation) {
        grant.usableUntil = 0;
        void giveBack(grant);
      } else if (current === undefined || counted || at >= current.usableUntil) current = grant;
    },

    nextSize(limits, waiting) {
      const max = maxGrantFor(limits);
      const wanted = Math.max(waiting, 1);
      return {
        calls: Math.min(Math.max(calls, wanted), max.calls),
        places: Math.min(Math.max(places, wanted), max.places),
      };
    },

    growCurrent() {
      if (current !== undefined && now() < current.usableUntil) grow(current);
    },

    resetSize() {
      [calls, places] = [1, 1];
    },

    release(grant, counted, bytes, isUnused = false) {
      if (counted) grant.busy--;
      if (counted && isUnused && !grant.isReported) grant.calls++;
      grant.inFlight--;
      inFlight--;
      grant.bytes += bytes;
      const at = now();
      grant.lastUseAt = at;
      lastUseAt = at;
      if (grant.inFlight > 0) return undefined;
      // Where every call counts, its slot is free for others the moment it ends.
      const usedUp = grant.places > 0 && grant.calls === 0;
      if (usedUp && at < grant.usableUntil) grow(grant);
      if (!usedUp && !isUnused && at < grant.usableUntil) return undefined;
      const given = giveBack(grant);
      return grant.isScarce ? given : undefined;
    },

    withdraw,

    settle() {
      const at = now();
      returns.retry(at);
      for (const grant of grants) {
        if (at < grant.usableUntil) continue;
        if (grant.inFlight === 0) {
          if (grant === current && grant.calls > calls / 2) calls = Math.max(1, calls >> 1);
          void giveBack(grant);
        } else if (at >= grant.renewAt || (at >= grant.reportAt && hasNews(grant))) {
          void returns.renew(grant, () => closed !== undefined);
        }
      }
      return grants.size + returns.owed() > 0;
    },

    giveBackIdle: () => [...grants].filter((grant) => grant.inFlight === 0 && grant.places > 0).map(giveBack),

    async close(because) {
      closed ??= because;
      withdraw();
      await returns.pending();
    },

    async report() {
      returns.retry(Number.POSITIVE_INFINITY);
      for (const grant of grants) {
        // What is reported cannot be used any more: the store would not hear of it.
        if (grant.size > 1) grant.usableUntil = 0;
        if (grant.size > 1 && grant.inFlight === 0) void giveBack(grant);
        else if (grant.size > 1 && !grant.isReported) void returns.renew(grant, () => closed !== undefined);
        else void returns.reportBytes(grant);
      }
      await returns.pending();
    },
    held: () => [...grants, ...returns.unconfirmed()],
    generation: () => generation,
    closed: () => closed,
    inFlight: () => inFlight,
    lastUseAt: () => lastUseAt,
  };
}

function hasRoom(grant: Grant, counted: boolean, at: number): boolean {
  return at < grant.usableUntil && (!counted || (grant.calls > 0 && grant.busy < grant.places));
}

/** Tells whether the store does not know yet what was used. A grant for one call is always used. */
function hasNews({ calls, bytes, size, isReported, busy, places }: Grant): boolean {
  return calls > 0 || bytes > 0 || (size > 1 && !isReported) || busy < places;
}

interface GrantReturns {
  /** Gives a grant back, and tries until the store has heard of it or has let go by itself: twice does no harm. */
  giveBack(grant: Grant): Promise<void>;
  /** Tells the store what was used of a grant that is still in use. */
  renew(grant: Grant, isClosed: () => boolean): Promise<void>;
  /** Tells the store the bytes of a grant, which stays usable. */
  reportBytes(grant: Grant): Promise<void>;
  retry(at: number): void;
  /** Resolves when the reports that are on their way have arrived. */
  pending(): Promise<unknown>;
  /** Grants that were given back here, without an answer of the store. */
  unconfirmed(): Iterable<Grant>;
  /** How many were given back here, but the store could not be told. */
  owed(): number;
}

const reportAgainMs = 1000;

function createGrantReturns({ store, now, session, onActive }: GrantOptions): GrantReturns {
  const owed = new Set<Grant>();
  const unconfirmed = new Set<Grant>();
  const returning = new Set<Promise<void>>();

  function usageOf({ bytes, calls: unusedCalls, lastUseAt: usedAt, limits }: Grant) {
    return { bytes, unusedCalls, agoMs: Math.max(0, Math.round(now() - usedAt)), limits };
  }

  async function release(grant: Grant): Promise<void> {
    try {
      await store.release(session().id, grant.lease, usageOf(grant));
      unconfirmed.delete(grant);
    } catch {
      const at = now();
      if (at >= grant.heldUntil) return void unconfirmed.delete(grant);
      grant.reportAt = at + reportAgainMs;
      owed.add(grant);
      onActive();
    }
  }

  function giveBack(grant: Grant): Promise<void> {
    owed.delete(grant);
    unconfirmed.add(grant);
    return track(release(grant));
  }

  function track(report: Promise<void>): Promise<void> {
    returning.add(report);
    return report.finally(() => returning.delete(report));
  }

  /** Takes another lease for calls under way, after the old one ran out because nobody could tell the store in time. */
  async function replaceLease(grant: Grant, bytes: number): Promise<void> {
    const { id } = session();
    const at = now();
    const { busy, limits } = grant;
    const verdict = await store.admit({ id, holdMs, calls: 0, places: busy, bytes, limits });
    if (verdict.outcome !== 'admitted' || verdict.lease === null) return;
    if (grant.isSettled) await store.release(id, verdict.lease);
    grant.lease = verdict.lease;
    grant.heldUntil = at + holdMs;
  }

  async function renew(grant: Grant, isClosed: () => boolean): Promise<void> {
    const at = now();
    const { bytes } = grant;
    const settled = { ...usageOf(grant), places: grant.busy, agoMs: 0 };
    grant.renewAt = at + renewEveryMs;
    grant.bytes = 0;
    grant.calls = 0;
    grant.places = grant.busy;
    grant.isReported = true;
    try {
      const kept = await store.renew(session().id, grant.lease, holdMs, settled);
      if (kept) grant.heldUntil = at + holdMs;
      else if (!isClosed()) await replaceLease(grant, bytes);
    } catch {
      // Nobody knows whether it was heard. Bytes counted twice refuse too early; calls given back twice admit too many.
      grant.bytes += bytes;
      grant.isReported = false;
      grant.reportAt = now() + reportAgainMs;
    }
  }

  async function reportBytes(grant: Grant): Promise<void> {
    const { bytes, lease } = grant;
    if (bytes === 0) return;
    const { agoMs } = usageOf(grant);
    grant.bytes = 0;
    const isHeard = await store.renew(session().id, lease, holdMs, { bytes, agoMs }).catch(() => false);
    if (!isHeard) grant.bytes += bytes;
  }

  return {
    giveBack,
    renew: (grant, isClosed) => track(renew(grant, isClosed)),
    reportBytes: (grant) => track(reportBytes(grant)),

    retry(at) {
      for (const grant of owed) if (at >= grant.reportAt) void giveBack(grant);
    },
    pending: () => Promise.all([...returning]),
    unconfirmed: () => unconfirmed,
    owed: () => owed.size,
  };
}
