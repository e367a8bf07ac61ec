import type { SessionRecord } from './record.ts';
import type { Gone } from './store.ts';

/** Limits of one session, user or workspace. A field that is absent is not limited. */
export interface Limits {
  readonly callsPerMinute?: number;
  /** The most calls that may come at once; `callsPerMinute` by default. */
  readonly burst?: number;
  readonly concurrentCalls?: number;
  /** Counts the whole life of a session, and one day (UTC) of a user or workspace. */
  readonly totalCalls?: number;
  /** Counts like `totalCalls`. It is checked before a call, so the answer that crosses it is still delivered. */
  readonly totalBytes?: number;
}

export type LimitName = Exclude<keyof Limits, 'burst'>;
export type Scope = 'session' | 'user' | 'workspace';
export const scopes: readonly Scope[] = ['session', 'user', 'workspace'];

export interface Admission {
  readonly id: string;
  /** The version that the caller decided on. Any other version is answered `stale`. */
  readonly version?: number;
  /** The number of calls; 1 by default, 0 for a request that is not counted. */
  readonly calls?: number;
  readonly bytes?: number;
  /** Takes a lease for this long at most (up to 600,000). The session is not idle while it is held. */
  readonly holdMs?: number;
  /** The concurrent calls that the lease counts for, up to 1,000,000; 1 by default, 0 with `calls: 0`. */
  readonly places?: number;
  /**
   * A session is always counted. A user or workspace is counted when it has limits here, but not for a child of a session
   * with the same user or workspace: each call of a child is also admitted for its ancestors, and must count once.
   */
  readonly limits?: Readonly<Partial<Record<Scope, Limits>>>;
}

export type Verdict =
  | {
      readonly outcome: 'admitted';
      readonly version: number;
      readonly lastActiveAt: number;
      readonly expiresAt: number;
      /** The id for `renew` and `release`; null when no lease was asked for. */
      readonly lease: string | null;
    }
  | { readonly outcome: 'stale'; readonly record: SessionRecord }
  | QuotaRefusal
  | Gone;

/** A refusal; nothing was counted. When several limits refuse, this is the one that lasts longest. */
export interface QuotaRefusal {
  readonly outcome: 'quota';
  readonly scope: Scope;
  readonly limit: LimitName;
  readonly allowed: number;
  /** The exact wait if nobody else calls; null when waiting alone does not help. */
  readonly retryAfterMs: number | null;
}

/** The actual use of a lease, known afterwards. */
export interface Spent {
  /** Bytes beyond those it was admitted with. */
  readonly bytes?: number;
  /**
   * Admitted calls that will not be made. A larger number means all that are left. The others count as made: a lease
   * that was renewed with this number, even 0, returns no more.
   */
  readonly unusedCalls?: number;
  /** The number of calls that the lease counts for from now on; it never rises. Only for `renew`. */
  readonly places?: number;
  /** The time since the session was last used; 0 by default. It keeps a late report from extending the session. */
  readonly agoMs?: number;
  /**
   * The limits it was admitted with. Calls are returned to these scopes at their pace, to a user or workspace only on
   * the day they were counted. Return them soon: time restores the pace as well.
   */
  readonly limits?: Admission['limits'];
}

/** The use of a session: calls that were made, their bytes, and calls that have not ended. */
export interface Use {
  readonly calls: number;
  readonly bytes: number;
  readonly underWay: number;
}

/** The use as a store counts it. `calls` and `underWay` include everything that leases stand for, used or not. */
export interface StoredUse extends Use {
  /** The time until its calls so far would have ended at an even pace; 0 if that has passed, or no pace is limited. */
  readonly aheadMs: number;
  /** The number of its live children. */
  readonly children: number;
  /** The leases that are held, without those that stand for no calls at all. */
  readonly leases: readonly HeldLease[];
}

export interface HeldLease {
  readonly lease: string;
  /** Admitted calls that may be returned: the store does not know yet how many of them were made. */
  readonly calls: number;
  readonly places: number;
}
