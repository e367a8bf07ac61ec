import { join } from 'node:path';
import { proof } from '../../proof.ts';
import type { McpClient, Target } from '../clients/mcp-client.ts';
import { strays } from '../clients/wire-log.ts';
import { ambitBin, startAmbit } from '../start-ambit.ts';
import type { Feature } from './checks.ts';
import { type ClientName, clientNames, clients, connect, only } from './clients.ts';
import type { Entrance, Result } from './results.ts';
import type { Script } from './script.ts';
import { tryFeatures } from './try-features.ts';
import { createPlace, type Place, type Started, type Upstream } from './upstreams.ts';

/** The short run tries one client of each era, at `/mcp`; the proof tries them all, by every way. */
const oneOfEachEra = clientNames.filter(
  (name) => name === clientNames.find((other) => clients[other].era === clients[name].era),
);

interface Standing {
  readonly upstream: Upstream;
  readonly place: Place;
  readonly started: Started;
}

/** All clients at all upstreams of a group: through `/mcp`, and where the eras differ by the other ways too. */
export async function runGroup(group: readonly Upstream[]): Promise<Result[]> {
  const standing = await Promise.all(
    group.map(async (upstream): Promise<Standing> => {
      const place = createPlace();
      return { upstream, place, started: await upstream.start(place) };
    }),
  );
  const push = { sampling: true, elicitation: true, roots: true };
  const servers = Object.fromEntries(
    standing.map(({ upstream: { name, era }, started }) => [name, { ...started.config, era, push }]),
  );
  const ambit = await startAmbit({ servers });
  const config = ['--config', join(ambit.folder, 'etc', 'ambit.yaml')];

  // A session for each visit, so that none finds what another has left at a server.
  async function http(url: string): Promise<Target> {
    const { token } = await ambit.session();
    return { kind: 'http', url, token };
  }

  async function runClient(client: ClientName): Promise<Result[]> {
    const mixed = standing.filter(({ upstream }) => upstream.era !== clients[client].era);
    const results = await visitAll('/mcp', client, await http(`${ambit.url}/mcp`), standing);
    if (!proof) return results;
    for (const each of mixed) {
      const target = await http(ambit.mcp(each.upstream.name));
      results.push(...(await visitAll('/mcp/{server}', client, target, [each])));
    }
    if (mixed.length === 0) return results;
    const data = ['--data-dir', join(ambit.folder, `data-${client}`)];
    const args = [ambitBin, 'stdio', '--trust', 'direct', ...config, ...data];
    return [...results, ...(await visitAll('ambit stdio', client, { kind: 'stdio', args }, mixed))];
  }

  try {
    const results: Result[] = [];
    for (const client of proof ? clientNames : oneOfEachEra) results.push(...(await runClient(client)));
    return results;
  } finally {
    await ambit.stop();
    await Promise.all(standing.map(({ started }) => started.stop()));
    for (const { place } of standing) place.remove();
  }
}

async function visitAll(
  entrance: Entrance,
  name: ClientName,
  target: Target,
  standing: readonly Standing[],
): Promise<Result[]> {
  const results: Result[] = [];
  const own = createPlace();
  // Before the client comes: what it does first is seen too.
  const evidence = standing.map(({ started }) => started.evidence());
  const client = await connect(name, target, own.files);
  try {
    if (client.era !== clients[name].era) throw new Error(`${name} found the ${client.era} era at ${entrance}`);
    if (client.era === 'handshake' && target.kind === 'http') await client.streamOpened;
    for (const [index, { upstream, place }] of standing.entries()) {
      const seen = entrance === '/mcp/{server}' ? client : only(client, upstream.name);
      const visit = {
        client: seen,
        script: upstream.script({ ...place, files: own.files }),
        evidence: evidence[index]!,
        folder: place.folder,
      };
      if (entrance === '/mcp/{server}') expectNoSuchOffer(upstream.name, visit.script, client.offers);
      results.push({ entrance, client: name, upstream: upstream.name, outcomes: await tryFeatures(upstream, visit) });
    }
    const lost = strays(client.wire);
    if (lost.length > 0) throw new Error(`${name} at ${entrance} got ${JSON.stringify(lost)}`);
  } finally {
    await client.close();
    own.remove();
  }
  return results;
}

/** A reason is wrong when the server itself says that it has the thing. */
function expectNoSuchOffer(server: string, script: Script, offers: McpClient['offers']): void {
  const offered: Partial<Record<Feature, unknown>> = {
    logging: offers.logging,
    resources: offers.resources,
    subscribe: (offers.resources as { subscribe?: boolean } | undefined)?.subscribe,
    prompts: offers.prompts,
    completion: offers.completions,
  };
  for (const [feature, there] of Object.entries(offered)) {
    if (typeof script[feature as Feature] === 'string' && there) throw new Error(`${server} does offer ${feature}`);
  }
}
