import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Admission, Limits, QuotaRefusal } from '../stores/admission.ts';

const limitNames: Readonly<Record<QuotaRefusal['limit'], readonly [unit: string, period: string]>> = {
  callsPerMinute: ['call', 'per minute'],
  concurrentCalls: ['call', 'at a time'],
  totalCalls: ['call', 'in total'],
  totalBytes: ['byte', 'in total'],
};

export type Quotas = NonNullable<Admission['limits']>;

export interface GrantSize {
  readonly calls: number;
  readonly places: number;
}

export const noCalls: GrantSize = { calls: 0, places: 0 };
export const oneCall: GrantSize = { calls: 1, places: 1 };

/** A grant takes at most 1/64 of a limit, so small limits are counted call by call. */
const maxShare = 64;
export const maxGrantSize = 1024;

export function maxGrantFor(limits: Quotas): GrantSize {
  let [calls, places] = [maxGrantSize, maxGrantSize];
  for (const scope of Object.values(limits) as (Limits | undefined)[]) {
    if (scope === undefined) continue;
    // The bytes of an answer are known only afterwards. With several calls at a time they would exceed the limit
    // together.
    if (scope.totalBytes !== undefined) calls = 1;
    const { callsPerMinute, burst = callsPerMinute, totalCalls, concurrentCalls } = scope;
    for (const limit of [burst, totalCalls])
      if (limit !== undefined) calls = Math.min(calls, Math.floor(limit / maxShare));
    if (concurrentCalls !== undefined) places = Math.min(places, Math.floor((concurrentCalls * 4) / maxShare));
  }
  // A grant with calls left keeps its slot between them. Where slots are few, no grant may keep one unused.
  if (places <= 1) calls = 1;
  return { calls: Math.max(calls, 1), places: Math.max(places, 1) };
}

/** The quotas of a configuration in the form of the store, without scopes that have no limit. */
export function quotasFromConfig({ quotas: { session, user, workspace } }: Config): Quotas {
  return { session, ...(isBounded(user) ? { user } : {}), ...(isBounded(workspace) ? { workspace } : {}) } as Quotas;
}

/** The quotas of a session that has limits of its own. The lower limit counts. */
export function narrowQuotas(quotas: Quotas, own: Limits | undefined): Quotas {
  if (own === undefined) return quotas;
  const session: { -readonly [Name in keyof Limits]: Limits[Name] } = { ...quotas.session };
  for (const name of Object.keys(own) as (keyof Limits)[]) {
    session[name] = Math.min(own[name] ?? Number.MAX_SAFE_INTEGER, session[name] ?? Number.MAX_SAFE_INTEGER);
  }
  return { ...quotas, session };
}

function isBounded(limits: object): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}

export function quotaExceededError({ scope, limit, allowed, retryAfterMs }: QuotaRefusal): AmbitError {
  // The end of a running call is not known, so the caller may retry after a second.
  const wait = limit === 'concurrentCalls' ? 1000 : retryAfterMs;
  const [unit, period] = limitNames[limit];
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `The ${scope} has reached its limit of ${allowed} ${unit}${allowed === 1 ? '' : 's'} ${period}.`,
    hint:
      limit === 'concurrentCalls'
        ? 'Wait until a running call has ended, then call again.'
        : wait === null
          ? 'No more calls are possible. Ask the orchestrator for a new session, or the operator for a larger quota.'
          : `Try again in ${Math.ceil(wait / 1000)} s.`,
    rule: `quotas.${scope}.${limit}`,
    ...(wait === null ? {} : { retryAfterMs: wait }),
  });
}
