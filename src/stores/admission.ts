import type { SessionRecord } from './record.ts';
import type { Gone } from './store.ts';

/** Bounds of one session, user or workspace. What is not given is not bounded. */
export interface Limits {
  readonly callsPerMinute?: number;
  /** How many of them may come at once; `callsPerMinute` unless told. */
  readonly burst?: number;
  readonly concurrentCalls?: number;
  /** Of a session: over its whole life. Of a user or workspace: in a day, by UTC. */
  readonly totalCalls?: number;
  /** As `totalCalls`. Checked before a call: the answer that crosses it still comes through. */
  readonly totalBytes?: number;
}

export type LimitName = Exclude<keyof Limits, 'burst'>;
export type Scope = 'session' | 'user' | 'workspace';
export const scopes: readonly Scope[] = ['session', 'user', 'workspace'];

export interface Admission {
  readonly id: string;
  /** The version the caller decided on; any other is answered `stale`. */
  readonly version?: number;
  /** How many calls this is: 1 unless told, 0 for what is not counted. */
  readonly calls?: number;
  readonly bytes?: number;
  /**
   * Takes a place until it is released, or for this long when nobody does (600,000 at most): a process that crashed
   * holds it no longer. While it is held the session does not expire for idleness.
   */
  readonly holdMs?: number;
  /**
   * How many of the concurrent calls that place counts for, up to 1,000,000; 1 unless told, 0 with `calls: 0`. Only
   * with `holdMs`.
   */
  readonly places?: number;
  /** A session is always counted; user and workspace when limits are given for them. */
  readonly limits?: Readonly<Partial<Record<Scope, Limits>>>;
}

export type Verdict =
  | {
      readonly outcome: 'admitted';
      readonly version: number;
      readonly lastActiveAt: number;
      readonly expiresAt: number;
      /** For `renew` and `release`; null when no place was asked for. */
      readonly lease: string | null;
    }
  | { readonly outcome: 'stale'; readonly record: SessionRecord }
  | QuotaRefusal
  | Gone;

/** Nothing was counted. Of several limits in the way, the one that stays longest. */
export interface QuotaRefusal {
  readonly outcome: 'quota';
  readonly scope: Scope;
  readonly limit: LimitName;
  readonly allowed: number;
  /** Exactly when it will be possible if nobody else calls; null when time alone does not help. */
  readonly retryAfterMs: number | null;
}

/** What is known about a place after it was taken. */
export interface Spent {
  /** In addition to those it was admitted with. */
  readonly bytes?: number;
  /** Calls that were admitted with it and will not be made. More than are left of them counts as all that are left. */
  readonly unusedCalls?: number;
  /** How many calls the place counts for from now on; never more than before. Only where it is kept. */
  readonly places?: number;
  /** How long ago the session was last used, so that telling of it late does not lengthen its life; 0 unless told. */
  readonly agoMs?: number;
  /**
   * Those it was admitted with: they say whose calls are given back, and at which pace. Of a user or workspace only on
   * the day they were counted. What time has given back to the pace meanwhile is not looked for: give back soon.
   */
  readonly limits?: Admission['limits'];
}

export interface Use {
  readonly calls: number;
  readonly bytes: number;
  /** Calls that places count for which are held. */
  readonly underWay: number;
}
