import type { AmbitError } from '../errors.ts';
import type { Admission } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { type GrantSize, mostAtOnce, mostFor, nothing, type Quotas, quotaExceeded, single } from './quotas.ts';
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
  readonly scarce: boolean;
  calls: number;
  /** Counted calls under way on it, and everything under way. */
  busy: number;
  inFlight: number;
  bytes: number;
  usableUntil: number;
  lastUseAt: number;
  /** When the store is told next, if there is something to tell; and at the latest. */
  tellAt: number;
  renewAt: number;
  /** After that the store has let go of it by itself. */
  heldUntil: number;
  /** What comes after it is larger. */
  outgrown: boolean;
  settled: boolean;
}

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
  /** Gives back what lies idle here of the same user or workspace; false when there was nothing. */
  readonly reclaim: () => Promise<boolean>;
}

export interface Grants {
  /** A promise only when the store has to be asked. Throws `StaleSession` when that is no longer the version. */
  enter(counted: boolean, version: number): Grant | Promise<Grant>;
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
const lateMs = 50;
const holdMs = 30_000;
const renewEveryMs = 10_000;
const tellAgainMs = 1000;

export function createGrants(options: GrantOptions): Grants {
  const { store, now } = options;
  const held = new Set<Grant>();
  /** Given back here, but the store could not be told. */
  const owed = new Set<Grant>();
  const returning = new Set<Promise<void>>();
  let current: Grant | undefined;
  const asking: Record<'counted' | 'free', Promise<void> | undefined> = { counted: undefined, free: undefined };
  let closed: AmbitError | undefined;
  let waiting = 0;
  let entering = 0;
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
    const request = (size: GrantSize): Admission => ({ id, version, holdMs, limits, ...size });
    let size = counted ? nextSize(limits) : nothing;
    let began = now();
    let verdict = await store.admit(request(size));
    const again = async () => {
      [calls, places] = [1, 1];
      size = single;
      began = now();
      verdict = await store.admit(request(size));
    };
    if (verdict.outcome === 'quota' && size.calls + size.places > 2) await again();
    if (verdict.outcome === 'quota' && (await options.reclaim())) await again();
    if (verdict.outcome === 'quota') throw quotaExceeded(verdict);
    if (verdict.outcome === 'stale') {
      options.outdated(verdict.record);
      throw new StaleSession();
    }
    if (verdict.outcome !== 'admitted') throw options.gone(verdict.outcome);
    const at = now();
    const left = endsAt - verdict.lastActiveAt;
    const grant: Grant = {
      of: grants,
      lease: verdict.lease as string,
      limits,
      places: size.places,
      scarce: counted && mostFor(limits).places === 1,
      calls: size.calls,
      busy: 0,
      inFlight: 0,
      bytes: 0,
      // A late answer is old news: what it grants counts from when it was asked for.
      usableUntil: Math.min(Math.max(began + usableMs, at + lateMs), at + left),
      lastUseAt: at,
      tellAt: 0,
      renewAt: began + renewEveryMs,
      heldUntil: began + holdMs,
      outgrown: false,
      settled: false,
    };
    held.add(grant);
    options.active();
    if (asked !== generation) {
      // What was withdrawn while we asked is not to be used.
      grant.usableUntil = 0;
      void release(grant);
    } else if (current === undefined || counted || at >= current.usableUntil) current = grant;
  }

  function nextSize(limits: Quotas): GrantSize {
    const most = mostFor(limits);
    const wanted = Math.max(waiting, 1);
    return {
      calls: Math.min(Math.max(calls, wanted), most.calls),
      places: Math.min(Math.max(places, wanted), most.places),
    };
  }

  /** Used up before its time: the next one is larger. */
  function grow(grant: Grant): void {
    if (grant.outgrown) return;
    grant.outgrown = grant.calls === 0;
    if (grant.calls === 0) calls = Math.min(calls * 2, mostAtOnce);
    if (grant.busy === grant.places) places = Math.min(places * 2, mostAtOnce);
  }

  function check(version: number): void {
    if (closed !== undefined) throw closed;
    if (options.session().version !== version) throw new StaleSession();
  }

  /** However many wait, the store is asked once for all of them. */
  async function more(counted: boolean, version: number): Promise<Grant> {
    const slot = counted ? 'counted' : 'free';
    entering++;
    if (counted) waiting++;
    try {
      for (;;) {
        asking[slot] ??= ask(counted).finally(() => {
          asking[slot] = undefined;
        });
        await asking[slot];
        check(version);
        const grant = take(counted);
        if (grant !== undefined) return grant;
      }
    } finally {
      entering--;
      if (counted) waiting--;
    }
  }

  function spent({ bytes, calls: unusedCalls, lastUseAt: usedAt, limits }: Grant) {
    return { bytes, unusedCalls, agoMs: Math.max(0, Math.round(now() - usedAt)), limits };
  }

  function release(grant: Grant): Promise<void> {
    if (grant.settled) return Promise.resolve();
    grant.settled = true;
    held.delete(grant);
    if (current === grant) current = undefined;
    return giveBack(grant);
  }

  /** Giving back twice does nothing, so it is tried until the store has heard of it or has let go by itself. */
  function giveBack(grant: Grant): Promise<void> {
    owed.delete(grant);
    const telling = store.release(options.session().id, grant.lease, spent(grant)).catch(() => {
      const at = now();
      if (at >= grant.heldUntil) return;
      grant.tellAt = at + tellAgainMs;
      owed.add(grant);
      options.active();
    });
    returning.add(telling);
    return telling.finally(() => returning.delete(telling));
  }

  async function renew(grant: Grant): Promise<void> {
    const at = now();
    const { bytes } = grant;
    const settled = { ...spent(grant), places: grant.busy, agoMs: 0 };
    grant.renewAt = at + renewEveryMs;
    grant.bytes = 0;
    grant.calls = 0;
    try {
      const kept = await store.renew(options.session().id, grant.lease, holdMs, settled);
      if (kept) grant.heldUntil = at + holdMs;
      else if (closed === undefined) await placeAnew(grant, bytes);
    } catch {
      // Nobody knows whether it was heard. Bytes counted twice refuse too early; calls given back twice admit too many.
      grant.bytes += bytes;
      grant.tellAt = now() + tellAgainMs;
    }
  }

  /** Its place ran out, because nobody could tell the store in time; the call is still under way. */
  async function placeAnew(grant: Grant, bytes: number): Promise<void> {
    const { id } = options.session();
    const at = now();
    const { busy, limits } = grant;
    const verdict = await store.admit({ id, holdMs, calls: 0, places: busy, bytes, limits });
    if (verdict.outcome !== 'admitted' || verdict.lease === null) return;
    if (grant.settled) await store.release(id, verdict.lease);
    grant.lease = verdict.lease;
    grant.heldUntil = at + holdMs;
  }

  function withdraw(): void {
    generation++;
    for (const grant of held) {
      grant.usableUntil = 0;
      if (grant.inFlight === 0) void release(grant);
    }
  }

  const grants: Grants = {
    enter(counted, version) {
      check(version);
      return take(counted) ?? more(counted, version);
    },

    leave(grant, counted, bytes) {
      if (counted) grant.busy--;
      grant.inFlight--;
      inFlight--;
      grant.bytes += bytes;
      const at = now();
      grant.lastUseAt = at;
      lastUseAt = at;
      if (grant.inFlight > 0) return undefined;
      // Where every call counts, its place is free for others the moment it ends.
      const usedUp = grant.places > 0 && grant.calls === 0;
      if (usedUp && at < grant.usableUntil) grow(grant);
      if (!usedUp && at < grant.usableUntil) return undefined;
      const given = release(grant);
      return grant.scarce ? given : undefined;
    },

    withdraw,

    settle() {
      const at = now();
      for (const grant of owed) if (at >= grant.tellAt) void giveBack(grant);
      for (const grant of held) {
        if (at < grant.usableUntil) continue;
        if (grant.inFlight === 0) {
          if (grant === current && grant.calls > calls / 2) calls = Math.max(1, calls >> 1);
          void release(grant);
        } else if (at >= grant.renewAt || (at >= grant.tellAt && (grant.calls > 0 || grant.bytes > 0))) {
          void renew(grant);
        }
      }
      return held.size + owed.size > 0;
    },

    giveBackIdle: () => [...held].filter((grant) => grant.inFlight === 0 && grant.places > 0).map(release),

    async close(because) {
      closed ??= because;
      withdraw();
      await Promise.all([...returning]);
    },

    get inFlight() {
      return inFlight + entering;
    },
    get lastUseAt() {
      return lastUseAt;
    },
  };
  return grants;
}
