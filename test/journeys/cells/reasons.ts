import type { Feature, Visit } from './checks.ts';
import type { Upstream } from './upstreams.ts';

/** Why a feature cannot work in a cell; undefined where it must. */
export function reasonFor(_upstream: Upstream, feature: Feature, { script }: Visit): string | undefined {
  const entry = script[feature];
  return typeof entry === 'string' ? entry : undefined;
}
