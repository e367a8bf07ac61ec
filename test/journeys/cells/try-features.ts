import { setTimeout as settled } from 'node:timers/promises';
import { checks, type Feature, featureNames, type Visit } from './checks.ts';
import type { Outcome } from './results.ts';
import type { Upstream } from './upstreams.ts';

const patienceMs = 20_000;
const settleMs = 1000;
// Roots early: server-filesystem serves nothing else, and a server that asks for them by itself does so soon.
const order: readonly Feature[] = ['tools', 'roots', ...featureNames.filter((name) => !/^(tools|roots)$/.test(name))];
// Over HTTP all clients share one server, and what one of them changes there the others are told of.
const alone: ReadonlySet<Feature> = new Set(['subscribe', 'listChanged']);
const turns = new Map<string, Promise<unknown>>();

/** Tries every feature that has no reason not to work; a script gives the reason in place of what to ask for. */
export async function tryFeatures({ name, era }: Upstream, visit: Visit): Promise<Map<Feature, Outcome>> {
  const outcomes = new Map<Feature, Outcome>();
  const { client, script, evidence } = visit;
  // From its first use on a server can be heard of by itself, once its stream is open.
  await client.call(script.call.tool, script.call.args).catch(() => {});
  if (era === 'handshake') await evidence.listening();
  // Several servers ask for roots a while after the handshake and serve nobody before they have them (fastmcp,
  // server-filesystem). A modern client can only be asked during a call: this one carries the question.
  await settled(settleMs);
  await client.call(script.call.tool, script.call.args).catch(() => {});
  for (const feature of order) {
    const entry = script[feature];
    if (typeof entry === 'string') outcomes.set(feature, { kind: 'named', reason: entry });
    else if (alone.has(feature)) outcomes.set(feature, await inTurn(name, () => attempt(feature, visit)));
    else outcomes.set(feature, await attempt(feature, visit));
  }
  return outcomes;
}

function inTurn<T>(name: string, work: () => Promise<T>): Promise<T> {
  const mine = (turns.get(name) ?? Promise.resolve()).then(work);
  turns.set(name, mine);
  return mine;
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
