import type { AmbitError } from '../errors.ts';
import type { Admission, HeldLease, StoredUse, Use } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { createGrantPool, holdMs, renewEveryMs } from './grant-pool.ts';
import { type GrantSize, maxGrantFor, noCalls, oneCall, type Quotas, quotaExceededError } from './quotas.ts';
import type { Session } from './session.ts';

/** Permission for one call. Its owner gets it back when the call has ended. */
export interface AcquiredGrant {
  readonly owner: GrantOwner;
}

export interface GrantOwner {
  /**
   * Must be called once for each acquired call. A promise where others may wait for this slot: the caller answers after
   * it. A call that is not made after all is given back, if the store still takes it.
   */
  release(grant: AcquiredGrant, counted: boolean, bytes: number, isUnused?: boolean): Promise<void> | undefined;
}

/**
 * Permission for some calls, taken from the store at once and used here: asking it for each call would cost more than
 * the call. The store has counted granted calls already, so several processes together never exceed a limit; unused
 * calls are given back. A grant is valid for less than a second, so no process goes on for longer with a session that
 * another one has ended, or without a store.
 */
export interface Grant extends AcquiredGrant {
  readonly owner: Grants;
  /** Replaced when the lease ran out while a call was under way. */
  lease: string;
  /** The limits it was taken with. Unused calls are given back to them, also after a reload. */
  readonly limits: Quotas;
  /** The calls it was taken for. */
  readonly size: number;
  /** Concurrent calls that the store counts for it. */
  places: number;
  /** Concurrent calls are so few that each slot matters. */
  readonly isScarce: boolean;
  calls: number;
  /** Counted calls under way on it, and everything under way. */
  busy: number;
  inFlight: number;
  bytes: number;
  usableUntil: number;
  lastUseAt: number;
  /** When usage is reported next, if there is any; `renewAt` is the latest time. */
  reportAt: number;
  renewAt: number;
  /** The time at which the store lets go of the lease by itself. */
  heldUntil: number;
  /** The store knows how many of the calls were made. No more are made then. */
  isReported: boolean;
  /** The next grant was made larger because of this one. */
  isOutgrown: boolean;
  isSettled: boolean;
}

export interface GrantOptions {
  readonly store: SessionStore;
  /** A clock of which only differences count. */
  readonly now: () => number;
  readonly quotas: () => Quotas;
  /** The loaded record, on which this process decides. */
  readonly session: () => Session;
  /** Called when the store has a newer record. */
  readonly onOutdated: (record: SessionRecord) => void;
  readonly onGone: (reason: 'missing' | 'expired' | 'ended') => AmbitError;
  /** Called when `settle` has work to do. */
  readonly onActive: () => void;
  /** Gives back idle grants of the same user or workspace; false when there were none. */
  readonly reclaimIdleGrants: () => Promise<boolean>;
}

export interface Grants extends GrantOwner {
  /** A promise only when the store has to be asked. Throws `StaleSessionError` when the version is outdated. */
  acquire(counted: boolean, version: number): Grant | Promise<Grant>;
  release(grant: Grant, counted: boolean, bytes: number, isUnused?: boolean): Promise<void> | undefined;
  /** Makes all grants unusable, since the record changed: the next call asks the store. */
  withdraw(): void;
  /** Gives back grants that are no longer usable; false when there is nothing left to do. */
  settle(): boolean;
  /** Gives back grants that are not in use before they expire. */
  giveBackIdle(): Promise<void>[];
  /** Gives back all grants that are not in use. Further calls are refused with this error. */
  close(because: AmbitError): Promise<void>;
  /** Resolves when the store knows the calls that were made so far, and the bytes of those that have ended. */
  report(): Promise<void>;
  /** All grants that the store may still count for this process. */
  held(): readonly Grant[];
  /** Includes those that wait for the store. */
  inFlight(): number;
  lastUseAt(): number;
}

/** Thrown when a decision was made on a record that is no longer the latest: it has to be made again. */
export class StaleSessionError extends Error {}

/**
 * Computes the use of a session from the count of the store. A grant of several calls counts when it is reported: only
 * then is it known how many were made, and after a crash they stay counted. A grant of one call is taken when the call is
 * made and returned when it ends. `unknown` are leases of other processes that have not reported yet.
 */
export function measureUse(
  { calls, bytes, leases }: StoredUse,
  own: readonly Grant[],
): { readonly use: Use; readonly unknown: readonly string[]; readonly areOthersBusy: boolean } {
  const isOwn = new Set(own.map(({ lease }) => lease));
  const others = leases.filter(({ lease }) => !isOwn.has(lease));
  const isOpen = (each: HeldLease) => each.calls > 1;
  const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);
  const reserved = leases.filter(isOpen).map((each) => each.calls);
  const busy = others.map((each) => (each.calls === 0 ? each.places : isOpen(each) ? 0 : Math.min(1, each.places)));
  const underWay = sum(busy) + sum(own.map((grant) => grant.busy));
  return {
    use: { calls: calls - sum(reserved), bytes, underWay },
    unknown: others.filter(isOpen).map(({ lease }) => lease),
    areOthersBusy: others.some((each) => each.calls === 0),
  };
}

const usableMs = 750;
/** After a late answer, those who waited for it may still use it for this long. */
const lateAnswerMs = 50;

export function createGrants(options: GrantOptions): Grants {
  const { store, now } = options;
  const pool = createGrantPool(options);
  const asking: Record<'counted' | 'free', Promise<void> | undefined> = { counted: undefined, free: undefined };
  let waiting = 0;
  let acquiring = 0;

  async function requestGrant(counted: boolean): Promise<void> {
    const { id, version, endsAt } = options.session();
    const limits = options.quotas();
    const asked = pool.generation();
    if (counted) pool.growCurrent();
    const request = (size: GrantSize): Admission => ({ id, version, holdMs, limits, ...size });
    let size = counted ? pool.nextSize(limits, waiting) : noCalls;
    let began = now();
    let verdict = await store.admit(request(size));
    const again = async () => {
      pool.resetSize();
      size = oneCall;
      began = now();
      verdict = await store.admit(request(size));
    };
    if (verdict.outcome === 'quota' && size.calls + size.places > 2) await again();
    if (verdict.outcome === 'quota' && (await options.reclaimIdleGrants())) await again();
    if (verdict.outcome === 'quota') throw quotaExceededError(verdict);
    if (verdict.outcome === 'stale') {
      options.onOutdated(verdict.record);
      throw new StaleSessionError();
    }
    if (verdict.outcome !== 'admitted') throw options.onGone(verdict.outcome);
    const at = now();
    const left = endsAt - verdict.lastActiveAt;
    const grant: Grant = {
      owner: grants,
      lease: verdict.lease as string,
      limits,
      size: size.calls,
      places: size.places,
      isScarce: counted && maxGrantFor(limits).places === 1,
      calls: size.calls,
      busy: 0,
      inFlight: 0,
      bytes: 0,
      // A late answer is outdated: the grant counts from when it was asked for.
      usableUntil: Math.min(Math.max(began + usableMs, at + lateAnswerMs), at + left),
      lastUseAt: at,
      reportAt: 0,
      renewAt: began + renewEveryMs,
      heldUntil: began + holdMs,
      isReported: false,
      isOutgrown: false,
      isSettled: false,
    };
    pool.add(grant, { counted, at, asked });
  }

  function assertCurrent(version: number): void {
    const closed = pool.closed();
    if (closed !== undefined) throw closed;
    if (options.session().version !== version) throw new StaleSessionError();
  }

  /** Asks the store once for all that wait, however many they are. */
  async function acquireFromStore(counted: boolean, version: number): Promise<Grant> {
    const slot = counted ? 'counted' : 'free';
    acquiring++;
    if (counted) waiting++;
    try {
      for (;;) {
        asking[slot] ??= requestGrant(counted).finally(() => {
          asking[slot] = undefined;
        });
        await asking[slot];
        assertCurrent(version);
        const grant = pool.take(counted);
        if (grant !== undefined) return grant;
      }
    } finally {
      acquiring--;
      if (counted) waiting--;
    }
  }

  const grants: Grants = {
    acquire(counted, version) {
      assertCurrent(version);
      return pool.take(counted) ?? acquireFromStore(counted, version);
    },
    release: pool.release,
    withdraw: pool.withdraw,
    settle: pool.settle,
    giveBackIdle: pool.giveBackIdle,
    close: pool.close,
    report: pool.report,
    held: pool.held,
    inFlight: () => pool.inFlight() + acquiring,
    lastUseAt: pool.lastUseAt,
  };
  return grants;
}
