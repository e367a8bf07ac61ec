import type { CheckParts } from '../clients/checks/check.ts';
import { runCheck } from '../clients/checks/try-features.ts';
import { checks, type Feature, featureNames } from './feature-checks.ts';
import type { Outcome } from './results.ts';
import type { Upstream } from './upstreams.ts';

// Several servers ask for roots by themselves, a while after the handshake (fastmcp, server-everything,
// server-filesystem). The check of roots waits until they have them, so that no question of theirs comes during a later
// check.
const order: readonly Feature[] = ['tools', 'roots', ...featureNames.filter((name) => !/^(tools|roots)$/.test(name))];
// Over HTTP all clients share one server, and what one of them changes there the others are told of.
const alone: ReadonlySet<Feature> = new Set(['subscribe', 'listChanged']);
const queues = new Map<string, Promise<unknown>>();

/** Tries every feature that has no reason not to work; a script gives the reason in place of what to ask for. */
export async function tryFeatures({ name, era }: Upstream, visit: CheckParts): Promise<Map<Feature, Outcome>> {
  const outcomes = new Map<Feature, Outcome>();
  const { client, script, evidence } = visit;
  // A server starts with its first call, and can be heard once its stream is open.
  await client.call(script.call.tool, script.call.args).catch(() => {});
  if (era === 'handshake') await evidence.listening();
  for (const feature of order) {
    const entry = script[feature];
    if (typeof entry === 'string') outcomes.set(feature, { kind: 'named', reason: entry });
    else if (alone.has(feature)) outcomes.set(feature, await runInTurn(name, () => tryFeature(feature, visit)));
    else outcomes.set(feature, await tryFeature(feature, visit));
  }
  return outcomes;
}

function runInTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
  const mine = (queues.get(name) ?? Promise.resolve()).then(work);
  queues.set(name, mine);
  return mine;
}

async function tryFeature(feature: Feature, visit: CheckParts): Promise<Outcome> {
  const error = await runCheck(() => checks[feature](visit));
  if (error === undefined) return { kind: 'works' };
  return { kind: 'fails', reason: error instanceof Error ? error.message : String(error) };
}
