import { AmbitError } from '../errors.ts';
import type { Admission, Limits, QuotaRefusal } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import type { Session } from './session.ts';

/**
 * Leave to make some calls, taken from the store at once and used here: asking it anew for each call would cost more
 * than the call. What is granted is counted in the store already, so several processes together never go beyond a
 * limit; what was not used is given back. A grant is good for less than a second, so no process goes on for longer
 * than that with a session that another one has ended, nor with a store that is gone.
 */
export interface Grant {
  readonly of: Grants;
  readonly lease: string | null;
  readonly places: number;
  calls: number;
  /** Counted calls under way on it, and everything under way. */
  busy: number;
  inFlight: number;
  bytes: number;
  usableUntil: number;
  lastUseAt: number;
  renewAt: number;
  settled: boolean;
}

export type Quotas = NonNullable<Admission['limits']>;

export interface GrantOptions {
  readonly store: SessionStore;
  /** Only differences of it count. */
  readonly now: () => number;
  readonly quotas: () => Quotas;
  /** The record that this process holds; what it decides, it decides on that. */
  readonly session: () => Session;
  /** The store has a newer record, or none any more. */
  readonly outdated: (record: SessionRecord) => void;
  readonly gone: (reason: 'missing' | 'expired' | 'ended') => AmbitError;
  /** There is something that `settle` has to look after. */
  readonly active: () => void;
}

export interface Grants {
  /** A promise only when the store has to be asked. */
  enter(counted: boolean): Grant | Promise<Grant>;
  /** To be called once for each that entered. */
  leave(grant: Grant, counted: boolean, bytes: number): void;
  /** Whatever was granted was granted on another record: the next call asks again. */
  withdraw(): void;
  /** Gives back what has not been used for long enough; false when there is nothing left to look after. */
  settle(): boolean;
  /** Gives everything back that is not in use. */
  close(): Promise<void>;
  readonly inFlight: number;
  readonly lastUseAt: number;
}

/** Thrown when a decision was made on a record that is no longer the latest: it has to be made again. */
export class StaleSession extends Error {}

const usableMs = 750;
const holdMs = 30_000;
const renewEveryMs = 10_000;
/** A grant never takes more than this share of a limit, so small limits are counted call by call. */
const share = 64;
const mostAtOnce = 64;

interface Size {
  readonly calls: number;
  readonly places: number;
}
const nothing: Size = { calls: 0, places: 0 };
const single: Size = { calls: 1, places: 1 };

export function createGrants(options: GrantOptions): Grants {
  const { store, now } = options;
  const held = new Set<Grant>();
  let current: Grant | undefined;
  const asking: Record<'counted' | 'free', Promise<void> | undefined> = { counted: undefined, free: undefined };
  let waiting = 0;
  let calls = 1;
  let places = 1;
  let inFlight = 0;
  let lastUseAt = now();
  let generation = 0;

  function has(grant: Grant, counted: boolean, at: number): boolean {
    return at < grant.usableUntil && (!counted || (grant.calls > 0 && grant.busy < grant.places));
  }

  function usable(counted: boolean, at: number): Grant | undefined {
    if (current !== undefined && has(current, counted, at)) return current;
    for (const grant of held) if (has(grant, counted, at)) return grant;
    return undefined;
  }

  function take(counted: boolean): Grant | undefined {
    const at = now();
    const grant = usable(counted, at);
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
  }

  async function ask(counted: boolean): Promise<void> {
    const { id, version, endsAt } = options.session();
    const limits = options.quotas();
    const asked = generation;
    if (counted && current !== undefined && now() < current.usableUntil) grow(current);
    const request = (size: Size): Admission => ({ id, version, holdMs, limits, ...size });
    let size = counted ? nextSize(limits) : nothing;
    let verdict = await store.admit(request(size));
    if (verdict.outcome === 'quota' && size.calls + size.places > 2) {
      [calls, places] = [1, 1];
      size = single;
      verdict = await store.admit(request(size));
    }
    if (verdict.outcome === 'quota') throw quotaExceeded(verdict);
    if (verdict.outcome === 'stale') {
      options.outdated(verdict.record);
      throw new StaleSession();
    }
    if (verdict.outcome !== 'admitted') throw options.gone(verdict.outcome);
    const at = now();
    const grant: Grant = {
      of: grants,
      lease: verdict.lease,
      places: size.places,
      calls: size.calls,
      busy: 0,
      inFlight: 0,
      bytes: 0,
      // What was withdrawn while we asked is not to be used; it is only given back.
      usableUntil: asked === generation ? at + Math.min(usableMs, endsAt - verdict.lastActiveAt) : 0,
      lastUseAt: at,
      renewAt: at + renewEveryMs,
      settled: false,
    };
    held.add(grant);
    options.active();
    if (current === undefined || counted || at >= current.usableUntil) current = grant;
  }

  function nextSize(limits: Quotas): Size {
    const most = mostFor(limits);
    const wanted = Math.max(waiting, 1);
    return {
      calls: Math.min(Math.max(calls, wanted), most.calls),
      places: Math.min(Math.max(places, wanted), most.places),
    };
  }

  /** Used up before its time: the next one is larger. */
  function grow(grant: Grant): void {
    if (grant.calls === 0) calls = Math.min(calls * 2, mostAtOnce);
    if (grant.busy === grant.places) places = Math.min(places * 2, mostAtOnce);
  }

  /** However many wait, the store is asked once for all of them. */
  async function more(counted: boolean): Promise<Grant> {
    const slot = counted ? 'counted' : 'free';
    if (counted) waiting++;
    try {
      for (;;) {
        asking[slot] ??= ask(counted).finally(() => {
          asking[slot] = undefined;
        });
        await asking[slot];
        const grant = take(counted);
        if (grant !== undefined) return grant;
      }
    } finally {
      if (counted) waiting--;
    }
  }

  function spent(grant: Grant) {
    const { bytes, calls: unusedCalls } = grant;
    grant.bytes = 0;
    grant.calls = 0;
    return { bytes, unusedCalls, agoMs: Math.max(0, Math.round(now() - grant.lastUseAt)), limits: options.quotas() };
  }

  function release(grant: Grant): Promise<void> {
    if (grant.settled) return Promise.resolve();
    grant.settled = true;
    held.delete(grant);
    if (current === grant) current = undefined;
    // A store that cannot be asked lets go of the place by itself, in time.
    return grant.lease === null
      ? Promise.resolve()
      : store.release(options.session().id, grant.lease, spent(grant)).catch(() => {});
  }

  function renew(grant: Grant): void {
    grant.renewAt = now() + renewEveryMs;
    if (grant.lease === null) return;
    const settled = { ...spent(grant), places: grant.busy, agoMs: 0 };
    store.renew(options.session().id, grant.lease, holdMs, settled).catch(() => {});
  }

  const grants: Grants = {
    enter: (counted) => take(counted) ?? more(counted),

    leave(grant, counted, bytes) {
      if (counted) grant.busy--;
      grant.inFlight--;
      inFlight--;
      grant.bytes += bytes;
      const at = now();
      grant.lastUseAt = at;
      lastUseAt = at;
      // Where every call counts, its place is free for others the moment it ends.
      if (grant.inFlight === 0 && (grant.calls === 0 || at >= grant.usableUntil)) void release(grant);
    },

    withdraw() {
      generation++;
      if (current !== undefined) current.usableUntil = 0;
    },

    settle() {
      const at = now();
      for (const grant of held) {
        if (at < grant.usableUntil) continue;
        if (grant.inFlight === 0) {
          if (grant === current && grant.calls > calls / 2) calls = Math.max(1, calls >> 1);
          void release(grant);
        } else if (grant.calls > 0 || grant.bytes > 0 || at >= grant.renewAt) {
          renew(grant);
        }
      }
      return held.size > 0;
    },

    async close() {
      generation++;
      await Promise.all([...held].filter((grant) => grant.inFlight === 0).map(release));
    },

    get inFlight() {
      return inFlight;
    },
    get lastUseAt() {
      return lastUseAt;
    },
  };
  return grants;
}

function mostFor(limits: Quotas): Size {
  let [calls, places] = [mostAtOnce, mostAtOnce];
  for (const scope of Object.values(limits) as (Limits | undefined)[]) {
    if (scope === undefined) continue;
    // How many bytes an answer brings is known only afterwards: one at a time, or several would go beyond together.
    if (scope.totalBytes !== undefined) calls = 1;
    const { callsPerMinute, burst = callsPerMinute, totalCalls, concurrentCalls } = scope;
    for (const limit of [burst, totalCalls])
      if (limit !== undefined) calls = Math.min(calls, Math.floor(limit / share));
    if (concurrentCalls !== undefined) places = Math.min(places, Math.floor((concurrentCalls * 4) / share));
  }
  return { calls: Math.max(calls, 1), places: Math.max(places, 1) };
}

const words: Readonly<Record<QuotaRefusal['limit'], string>> = {
  callsPerMinute: 'calls a minute',
  concurrentCalls: 'calls at a time',
  totalCalls: 'calls in all',
  totalBytes: 'bytes in all',
};

export function quotaExceeded({ scope, limit, allowed, retryAfterMs }: QuotaRefusal): AmbitError {
  // When a call will end nobody knows; a second is a fair time to look again.
  const wait = limit === 'concurrentCalls' ? 1000 : retryAfterMs;
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `The ${scope} may make ${allowed} ${words[limit]}, and has.`,
    hint:
      limit === 'concurrentCalls'
        ? 'Wait until a call under way has ended, then call again.'
        : wait === null
          ? 'No further call is possible; ask the orchestrator for a new session, or the operator for a larger quota.'
          : `Call again in ${Math.ceil(wait / 1000)} s.`,
    rule: `quotas.${scope}.${limit}`,
    ...(wait === null ? {} : { retryAfterMs: wait }),
  });
}
