import type { Admission, Limits } from '../stores/admission.ts';

export type Quotas = NonNullable<Admission['limits']>;

export interface GrantSize {
  readonly calls: number;
  readonly places: number;
}

export const nothing: GrantSize = { calls: 0, places: 0 };
export const single: GrantSize = { calls: 1, places: 1 };

/** A grant never takes more than this share of a limit, so small limits are counted call by call. */
const share = 64;
export const mostAtOnce = 64;

export function mostFor(limits: Quotas): GrantSize {
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
  // A grant with calls left keeps its place between them: where places are few, nobody may keep one it does not use.
  if (places <= 1) calls = 1;
  return { calls: Math.max(calls, 1), places: Math.max(places, 1) };
}
