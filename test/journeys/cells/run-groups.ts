import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { proof } from '../../proof.ts';
import { canSubscribe } from '../clients/checks/try-features.ts';
import type { Script } from '../clients/checks/upstream-scripts.ts';
import { type ClientName, clientNames, clients, connectClient } from '../clients/connect/connect-client.ts';
import type { McpClient, Target } from '../clients/connect/mcp-client.ts';
import { findStrayMessages } from '../clients/evidence/wire-log.ts';
import { ambitBin, type RunningAmbit, startAmbit } from '../start-ambit.ts';
import type { Feature } from './feature-checks.ts';
import { limitToServer } from './limit-to-server.ts';
import type { Entrance, Result } from './results.ts';
import { tryFeatures } from './try-features.ts';
import { createPlace, type Place, type Started, type Upstream } from './upstreams.ts';

/** The clients of a group in the short run: one at `/mcp`, and one for a single server at `/mcp/{server}`. */
export interface GroupClients {
  readonly all: ClientName;
  readonly alone?: { readonly client: ClientName; readonly upstream: string };
}

/** Another upstream of the same era and transport has the same features or more; so these wait for the proof. */
const onlyForProof: ReadonlySet<string> = new Set(['memory', 'fixture-handshake-stdio', 'tmcp-handshake', 'thinking']);

interface RunningUpstream {
  readonly upstream: Upstream;
  readonly place: Place;
  readonly started: Started;
}

/** All groups side by side, behind one Ambit: a session may use the servers of its group only. */
export async function runGroups(
  groups: readonly (readonly Upstream[])[],
  visitors: readonly GroupClients[],
): Promise<Result[]> {
  const standing = await Promise.all(
    groups.map((group) =>
      Promise.all(
        group
          .filter(({ name }) => proof || !onlyForProof.has(name))
          .map(async (upstream): Promise<RunningUpstream> => {
            const place = createPlace();
            return { upstream, place, started: await upstream.start(place) };
          }),
      ),
    ),
  );
  const ambit = await startAmbit({ servers: configOf(standing.flat()) });
  try {
    return (await Promise.all(standing.map((group, index) => runGroup(ambit, group, visitors[index]!)))).flat();
  } finally {
    await ambit.stop();
    await Promise.all(standing.flat().map(({ started }) => started.stop()));
    for (const { place } of standing.flat()) place.remove();
  }
}

function configOf(standing: readonly RunningUpstream[]): Record<string, unknown> {
  const push = { sampling: true, elicitation: true, roots: true };
  return Object.fromEntries(
    standing.map(({ upstream: { name, era }, started }) => [name, { ...started.config, era, push }]),
  );
}

/**
 * The upstreams of a group and their visitors; for the proof all clients at all upstreams: through `/mcp`, and where the
 * eras differ by the other ways too.
 */
async function runGroup(
  ambit: RunningAmbit,
  standing: readonly RunningUpstream[],
  visitors: GroupClients,
): Promise<Result[]> {
  const servers = standing.map(({ upstream }) => upstream.name);

  // A session for each visit, so that none finds what another has left at a server.
  async function http(url: string): Promise<Target> {
    const { token } = await ambit.session({ servers });
    return { kind: 'http', url, token };
  }

  const visitGroup = async (client: ClientName) =>
    runClientAt('/mcp', client, await http(`${ambit.url}/mcp`), standing);
  const visitOne = async (client: ClientName, one: RunningUpstream) =>
    runClientAt('/mcp/{server}', client, await http(ambit.mcp(one.upstream.name)), [one]);

  async function runShort({ all, alone }: GroupClients): Promise<Result[]> {
    const results = await visitGroup(all);
    for (const one of standing.filter(({ upstream }) => upstream.name === alone?.upstream)) {
      results.push(...(await visitOne(alone!.client, one)));
    }
    return results;
  }

  async function runClient(client: ClientName): Promise<Result[]> {
    const mixed = standing.filter(({ upstream }) => upstream.era !== clients[client].era);
    const results = await visitGroup(client);
    for (const one of mixed) results.push(...(await visitOne(client, one)));
    if (mixed.length === 0) return results;
    const config = join(ambit.folder, `${servers[0]}.yaml`);
    writeFileSync(config, JSON.stringify({ version: 1, servers: configOf(standing) }));
    const places = ['--config', config, '--data-dir', join(ambit.folder, `data-${servers[0]}-${client}`)];
    const args = [ambitBin, 'stdio', '--trust', 'direct', ...places];
    return [...results, ...(await runClientAt('ambit stdio', client, { kind: 'stdio', args }, mixed))];
  }

  if (!proof) return runShort(visitors);
  const results: Result[] = [];
  for (const client of clientNames) results.push(...(await runClient(client)));
  return results;
}

async function runClientAt(
  entrance: Entrance,
  name: ClientName,
  target: Target,
  standing: readonly RunningUpstream[],
): Promise<Result[]> {
  const results: Result[] = [];
  const own = createPlace();
  // Before the client comes: what it does first is seen too.
  const evidence = standing.map(({ started }) => started.evidence());
  const client = await connectClient(name, target, own.files);
  try {
    if (client.era !== clients[name].era) throw new Error(`${name} found the ${client.era} era at ${entrance}`);
    if (client.era === 'handshake' && target.kind === 'http') await client.streamOpened;
    for (const [index, { upstream, place }] of standing.entries()) {
      const seen = entrance === '/mcp/{server}' ? client : limitToServer(client, upstream.name);
      const visit = {
        client: seen,
        script: upstream.script({ ...place, files: own.files }),
        evidence: evidence[index]!,
        folder: place.folder,
        isMixed: true,
      };
      if (entrance === '/mcp/{server}') expectNoSuchOffer(upstream.name, visit.script, client.offers);
      results.push({ entrance, client: name, upstream: upstream.name, outcomes: await tryFeatures(upstream, visit) });
    }
    const lost = findStrayMessages(client.wire);
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
    subscribe: canSubscribe(offers),
    prompts: offers.prompts,
    completion: offers.completions,
  };
  for (const [feature, there] of Object.entries(offered)) {
    if (typeof script[feature as Feature] === 'string' && there) throw new Error(`${server} does offer ${feature}`);
  }
}
