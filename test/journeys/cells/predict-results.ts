import { clientNames } from '../clients/connect/connect-client.ts';
import { type Feature, featureNames } from './feature-checks.ts';
import type { Outcome, Result } from './results.ts';
import type { Upstream } from './upstreams.ts';

const nowhere = { folder: '', files: '', taps: '', remove() {} };

/** Predicts the results of combinations that were not tried: features with a script work, the others have a reason. */
export function predictResults(upstreams: readonly Upstream[], tried: readonly Result[]): Result[] {
  return upstreams.flatMap((upstream) => {
    const script = upstream.script(nowhere);
    const outcome = (feature: Feature): Outcome => {
      const entry = script[feature];
      return typeof entry === 'string' ? { kind: 'named', reason: entry } : { kind: 'works' };
    };
    const outcomes = new Map(featureNames.map((feature) => [feature, outcome(feature)]));
    return clientNames
      .filter((client) => !tried.some((each) => each.client === client && each.upstream === upstream.name))
      .map((client): Result => ({ entrance: '/mcp', client, upstream: upstream.name, outcomes }));
  });
}
