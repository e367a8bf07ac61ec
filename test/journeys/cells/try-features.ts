import { checks, type Feature, featureNames, type Visit } from './checks.ts';
import { reasonFor } from './reasons.ts';
import type { Outcome } from './results.ts';
import type { Upstream } from './upstreams.ts';

const patienceMs = Number(process.env.PAT ?? 15_000);

// Roots early: a server that asks for them by itself does so soon, and a call it asks during is held up by it.
const order = [...featureNames].sort((a, b) => rank(a) - rank(b));
function rank(feature: Feature): number {
  return feature === 'tools' || feature === 'call' ? 0 : feature === 'roots' ? 1 : 2;
}

/** Tries every feature that has no reason not to work. */
export async function tryFeatures(upstream: Upstream, visit: Visit): Promise<Map<Feature, Outcome>> {
  const outcomes = new Map<Feature, Outcome>();
  for (const feature of order) {
    const reason = reasonFor(upstream, feature, visit);
    outcomes.set(feature, reason === undefined ? await attempt(feature, visit) : { kind: 'named', reason });
    const done = outcomes.get(feature);
    if (process.env.PAT && done?.kind === 'fails')
      process.stderr.write(`${upstream.name} ${visit.client.era} ${feature} ${done.reason.slice(0, 300)}\n`);
    // From its first use on a server can be heard of by itself, once its stream is open.
    if (feature === 'call' && visit.client.era === 'handshake' && upstream.era === 'handshake')
      await visit.evidence.listening();
  }
  return outcomes;
}

async function attempt(feature: Feature, visit: Visit): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${patienceMs} ms`)), patienceMs);
  });
  try {
    await Promise.race([checks[feature](visit), late]);
    return { kind: 'works' };
  } catch (error) {
    return { kind: 'fails', reason: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
  }
}
