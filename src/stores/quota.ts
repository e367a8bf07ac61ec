import { randomBytes } from 'node:crypto';
import {
  type Admission,
  type LimitName,
  type Limits,
  type QuotaRefusal,
  type Scope,
  type Spent,
  scopes,
} from './admission.ts';

const minuteUs = 60_000_000;
const dayMs = 86_400_000;

export interface Counters {
  /** The time at which the calls so far would have ended at an even pace, in whole microseconds to stay exact. */
  readonly paceUs: number;
  readonly calls: number;
  readonly bytes: number;
  /** The day of `calls` and `bytes`; always 0 for a session. */
  readonly day: number;
}

export const noCounters: Counters = { paceUs: 0, calls: 0, bytes: 0, day: 0 };

interface Cost {
  readonly calls: number;
  readonly bytes: number;
  readonly places: number;
}

export interface QuotaAccount {
  readonly scope: Scope;
  readonly limits: Limits;
  readonly counters: Counters;
  readonly underWay: number;
}

export function readCost(request: Admission): Cost {
  const { calls = 1, bytes = 0, holdMs, places = calls > 0 ? 1 : 0 } = request;
  return { calls, bytes, places: holdMs === undefined ? 0 : places };
}

/** The calls of a lease that are left, and the day on which they were counted. */
export interface LeaseUse {
  readonly calls: number;
  readonly day: number;
}

export const dayNumber = (now: number): number => Math.floor(now / dayMs);

/** The calls of a lease that may still be returned after a report. */
export const countOpen = (spent: Spent, taken: LeaseUse): number => (spent.unusedCalls === undefined ? taken.calls : 0);

export const countUnused = (spent: Spent, taken: LeaseUse): number => Math.min(spent.unusedCalls ?? 0, taken.calls);

/** Finds the limit that refuses a call. Either all accounts are charged, or none. */
export function findRefusal(accounts: readonly QuotaAccount[], cost: Cost, now: number): QuotaRefusal | undefined {
  let lasting: QuotaRefusal | undefined;
  for (const scope of scopes) {
    const account = accounts.find((each) => each.scope === scope);
    if (account === undefined) continue;
    for (const refusal of listRefusals(account, cost, now)) if (isLonger(refusal, lasting)) lasting = refusal;
  }
  return lasting;
}

export function chargeCounters(scope: Scope, counters: Counters, limits: Limits, cost: Cost, now: number): Counters {
  const today = rollOverDay(scope, counters, now);
  const perMinute = limits.callsPerMinute;
  const paceUs =
    perMinute === undefined ? today.paceUs : Math.max(today.paceUs, now * 1000) + cost.calls * paceStepUs(perMinute);
  return { paceUs, calls: today.calls + cost.calls, bytes: today.bytes + cost.bytes, day: today.day };
}

/** The counters after the actual use of a lease is known. Calls of an earlier day are no longer counted anyway. */
export function settleCounters(scope: Scope, counters: Counters, spent: Spent, taken: LeaseUse, now: number): Counters {
  const today = rollOverDay(scope, counters, now);
  const limits = spent.limits?.[scope];
  const unused = countUnused(spent, taken);
  const counted = scope === 'session' || (limits !== undefined && today.day === taken.day);
  const perMinute = limits?.callsPerMinute;
  return {
    paceUs: perMinute === undefined ? today.paceUs : today.paceUs - unused * paceStepUs(perMinute),
    calls: counted ? Math.max(0, today.calls - unused) : today.calls,
    bytes: today.bytes + (spent.bytes ?? 0),
    day: today.day,
  };
}

/** The time until the calls so far would have ended at an even pace. */
export const countAheadMs = (paceUs: number, now: number): number => Math.max(0, Math.ceil(paceUs / 1000) - now);

function rollOverDay(scope: Scope, counters: Counters, now: number): Counters {
  const day = scope === 'session' ? 0 : dayNumber(now);
  return counters.day === day ? counters : { paceUs: counters.paceUs, calls: 0, bytes: 0, day };
}

const paceStepUs = (perMinute: number): number => Math.floor(minuteUs / perMinute);

function* listRefusals(account: QuotaAccount, cost: Cost, now: number): Generator<QuotaRefusal> {
  const { scope, limits, underWay } = account;
  const counters = rollOverDay(scope, account.counters, now);
  const refusal = (limit: LimitName, retryAfterMs: number | null): QuotaRefusal => ({
    outcome: 'quota',
    scope,
    limit,
    allowed: limits[limit] as number,
    retryAfterMs,
  });
  const tomorrow = scope === 'session' ? null : dayMs - (now % dayMs);
  const { totalCalls, totalBytes, concurrentCalls, callsPerMinute } = limits;
  if (totalCalls !== undefined && cost.calls > 0 && counters.calls + cost.calls > totalCalls) {
    yield refusal('totalCalls', cost.calls > totalCalls ? null : tomorrow);
  }
  // At the limit no call is admitted, not even one without bytes: its answer will have some.
  const asksBytes = cost.calls > 0 || cost.bytes > 0;
  if (
    totalBytes !== undefined &&
    asksBytes &&
    (counters.bytes >= totalBytes || counters.bytes + cost.bytes > totalBytes)
  ) {
    yield refusal('totalBytes', cost.bytes > totalBytes ? null : tomorrow);
  }
  if (concurrentCalls !== undefined && cost.places > 0 && underWay + cost.places > concurrentCalls) {
    yield refusal('concurrentCalls', null);
  }
  if (callsPerMinute !== undefined && cost.calls > 0) {
    const step = paceStepUs(callsPerMinute);
    const burst = limits.burst ?? callsPerMinute;
    const possibleUs = Math.max(counters.paceUs, now * 1000) + cost.calls * step - burst * step;
    const waitMs = Math.ceil((possibleUs - now * 1000) / 1000);
    if (waitMs > 0) yield refusal('callsPerMinute', cost.calls > burst ? null : waitMs);
  }
}

function isLonger(refusal: QuotaRefusal, than: QuotaRefusal | undefined): boolean {
  if (than === undefined) return true;
  if (than.retryAfterMs === null) return false;
  return refusal.retryAfterMs === null || refusal.retryAfterMs > than.retryAfterMs;
}

const processId = randomBytes(8).toString('hex');

let leaseCount = 0;

/** Creates an id that no process ever gives twice. It proves nothing, so it may be guessable. */
export function createLeaseId(): string {
  leaseCount++;
  return `${processId}.${leaseCount.toString(36)}`;
}
