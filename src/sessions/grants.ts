import type { AmbitError } from '../errors.ts';
import type { Admission } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { createGrantPool, holdMs, renewEveryMs } from './grant-pool.ts';
import { type GrantSize, maxGrantFor, noCalls, oneCall, type Quotas, quotaExceededError } from './quotas.ts';
import type { Session } from './session.ts';

/**
 * Leave to make some calls, taken from the store at once and used here: asking it anew for each call would cost more
 * than the call. What is granted is counted in the store already, so several processes together never go beyond a
 * limit; what was not used is given back. A grant is good for less than a second, so no process goes on for longer
 * than that with a session that another one has ended, nor with a store that is gone.
 */
export interface Grant {
  readonly of: Grants;
  /** Another one when the place ran out while a call was under way. */
  lease: string;
  /** Those it was taken with: what is given back is given back to them, whatever a reload has changed since. */
  readonly limits: Quotas;
  readonly places: number;
  /** Places are so few that each of them matters. */
  readonly isScarce: boolean;
  calls: number;
  /** Counted calls under way on it, and everything under way. */
  busy: number;
  inFlight: number;
  bytes: number;
  usableUntil: number;
  lastUseAt: number;
  /** When the store is told next, if there is something to tell; and at the latest. */
  reportAt: number;
  renewAt: number;
  /** After that the store has let go of it by itself. */
  heldUntil: number;
  /** What comes after it is larger. */
  isOutgrown: boolean;
  isSettled: boolean;
}

export interface GrantOptions {
  readonly store: SessionStore;
  /** Only differences of it count. */
  readonly now: () => number;
  readonly quotas: () => Quotas;
  /** The record that this process holds; what it decides, it decides on that. */
  readonly session: () => Session;
  /** The store has a newer record, or none any more. */
  readonly onOutdated: (record: SessionRecord) => void;
  readonly onGone: (reason: 'missing' | 'expired' | 'ended') => AmbitError;
  /** There is something that `settle` has to look after. */
  readonly onActive: () => void;
  /** Gives back what lies idle here of the same user or workspace; false when there was nothing. */
  readonly reclaimIdleGrants: () => Promise<boolean>;
}

export interface Grants {
  /** A promise only when the store has to be asked. Throws `StaleSession` when that is no longer the version. */
  acquire(counted: boolean, version: number): Grant | Promise<Grant>;
  /**
   * To be called once for each that entered. A promise where others may wait for the very place: whoever answers only
   * then has let it go first.
   */
  leave(grant: Grant, counted: boolean, bytes: number): Promise<void> | undefined;
  /** Whatever was granted was granted on another record: the next call asks again. */
  withdraw(): void;
  /** Gives back what has not been used for long enough; false when there is nothing left to look after. */
  settle(): boolean;
  /** Gives back what could be used and is not, before its time. */
  giveBackIdle(): Promise<void>[];
  /** Gives everything back that is not in use; whoever enters from now on is refused with this. */
  close(because: AmbitError): Promise<void>;
  /** Those who wait for the store included. */
  readonly inFlight: number;
  readonly lastUseAt: number;
}

/** Thrown when a decision was made on a record that is no longer the latest: it has to be made again. */
export class StaleSession extends Error {}

const usableMs = 750;
/** When an answer was long in coming, at least those who waited for it may use it. */
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
    const asked = pool.generation;
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
      throw new StaleSession();
    }
    if (verdict.outcome !== 'admitted') throw options.onGone(verdict.outcome);
    const at = now();
    const left = endsAt - verdict.lastActiveAt;
    const grant: Grant = {
      of: grants,
      lease: verdict.lease as string,
      limits,
      places: size.places,
      isScarce: counted && maxGrantFor(limits).places === 1,
      calls: size.calls,
      busy: 0,
      inFlight: 0,
      bytes: 0,
      // A late answer is old news: what it grants counts from when it was asked for.
      usableUntil: Math.min(Math.max(began + usableMs, at + lateAnswerMs), at + left),
      lastUseAt: at,
      reportAt: 0,
      renewAt: began + renewEveryMs,
      heldUntil: began + holdMs,
      isOutgrown: false,
      isSettled: false,
    };
    pool.add(grant, { counted, at, asked });
  }

  function assertCurrent(version: number): void {
    if (pool.closed !== undefined) throw pool.closed;
    if (options.session().version !== version) throw new StaleSession();
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
    leave: pool.leave,
    withdraw: pool.withdraw,
    settle: pool.settle,
    giveBackIdle: pool.giveBackIdle,
    close: pool.close,
    get inFlight() {
      return pool.inFlight + acquiring;
    },
    get lastUseAt() {
      return pool.lastUseAt;
    },
  };
  return grants;
}
