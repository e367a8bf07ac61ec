import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Admission, Limits, QuotaRefusal } from '../stores/admission.ts';

const limitNames: Readonly<Record<QuotaRefusal['limit'], string>> = {
  callsPerMinute: 'calls a minute',
  concurrentCalls: 'calls at a time',
  totalCalls: 'calls in all',
  totalBytes: 'bytes in all',
};

export type Quotas = NonNullable<Admission['limits']>;

export interface GrantSize {
  readonly calls: number;
  readonly places: number;
}

export const noCalls: GrantSize = { calls: 0, places: 0 };
export const oneCall: GrantSize = { calls: 1, places: 1 };

/** A grant never takes more than this share of a limit, so small limits are counted call by call. */
const maxShare = 64;
export const maxGrantSize = 64;

export function maxGrantFor(limits: Quotas): GrantSize {
  let [calls, places] = [maxGrantSize, maxGrantSize];
  for (const scope of Object.values(limits) as (Limits | undefined)[]) {
    if (scope === undefined) continue;
    // How many bytes an answer brings is known only afterwards: one at a time, or several would go beyond together.
    if (scope.totalBytes !== undefined) calls = 1;
    const { callsPerMinute, burst = callsPerMinute, totalCalls, concurrentCalls } = scope;
    for (const limit of [burst, totalCalls])
      if (limit !== undefined) calls = Math.min(calls, Math.floor(limit / maxShare));
    if (concurrentCalls !== undefined) places = Math.min(places, Math.floor((concurrentCalls * 4) / maxShare));
  }
  // A grant with calls left keeps its place between them: where places are few, nobody may keep one it does not use.
  if (places <= 1) calls = 1;
  return { calls: Math.max(calls, 1), places: Math.max(places, 1) };
}

/** The quotas of a configuration as a store takes them: without those that bound nothing. */
export function quotasOf({ quotas: { session, user, workspace } }: Config): Quotas {
  return { session, ...(isBounded(user) ? { user } : {}), ...(isBounded(workspace) ? { workspace } : {}) } as Quotas;
}

function isBounded(limits: object): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}

export function quotaExceededError({ scope, limit, allowed, retryAfterMs }: QuotaRefusal): AmbitError {
  // When a call will end nobody knows; a second is a fair time to look again.
  const wait = limit === 'concurrentCalls' ? 1000 : retryAfterMs;
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `The ${scope} may make ${allowed} ${limitNames[limit]}, and has.`,
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
