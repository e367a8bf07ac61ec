import { afterAll, beforeAll, test } from 'vitest';
import { proof } from '../../proof.ts';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { featureNames } from './checks/try-features.ts';
import { type ClientName, clientLegend, testedClients } from './connect/connect-client.ts';
import { readStdioEvidence, tapArguments } from './evidence/evidence.ts';
import { type HttpTap, startHttpTap } from './evidence/tap-http.ts';
import { type Column, printGrid } from './print-grid.ts';
import { runRow } from './run-row.ts';
import {
  createFolders,
  type HttpUpstream,
  listStdioArguments,
  startHttpUpstream,
  type TestFolders,
  type UpstreamName,
} from './upstreams.ts';

// test/journeys/cells tries these upstreams too, all but the client's goodbye. One upstream shows that here.
const overHttp: readonly UpstreamName[] = proof ? ['everything http', 'fixture http'] : ['fixture http'];
const upstreams: readonly UpstreamName[] = proof
  ? ['everything stdio', 'everything http', 'filesystem', 'fixture stdio', 'fixture http']
  : overHttp;
const places = new Map<string, TestFolders>();
const taps = new Map<UpstreamName, HttpTap>();
const columns = new Map(upstreams.map((upstream) => [upstream, new Map<string, Column>()]));
let running: HttpUpstream[] = [];
let ambit: RunningAmbit;
let token: string;

// A server of its own for each pair, so that each has its own process and evidence.
const serverName = (client: ClientName, upstream: UpstreamName) => `${upstream.replace(' ', '-')}-${client}`;

beforeAll(async () => {
  running = await Promise.all(overHttp.map(startHttpUpstream));
  for (const [index, upstream] of overHttp.entries()) taps.set(upstream, await startHttpTap(running[index]!.url));
  const servers: Record<string, unknown> = {};
  for (const upstream of upstreams) {
    for (const client of testedClients) {
      const place = createFolders();
      const name = serverName(client, upstream);
      const tap = taps.get(upstream);
      places.set(name, place);
      // Without the key `push` a server may ask its client for anything: sampling, elicitation, roots.
      servers[name] =
        tap === undefined
          ? { command: process.execPath, args: [...tapArguments(place.taps), ...listStdioArguments(upstream, place)] }
          : { url: tap.url };
    }
  }
  ambit = await startAmbit({ servers });
  ({ token } = await ambit.session());
});

afterAll(async () => {
  process.stdout.write(
    `\n${printGrid(`Clients over HTTP, through ambit serve\n${clientLegend}`, featureNames, columns)}\n`,
  );
  await ambit?.stop();
  for (const tap of taps.values()) tap.stop();
  await Promise.all(running.map((server) => server.stop()));
  for (const place of places.values()) place.remove();
});

test.concurrent.each(upstreams)('%s serves every client of its era', async (upstream) => {
  const tap = taps.get(upstream);
  for (const client of testedClients) {
    const name = serverName(client, upstream);
    const place = places.get(name)!;
    const column = await runRow({
      client,
      upstream,
      target: { kind: 'http', url: ambit.mcp(name), token },
      evidence: tap?.watch() ?? readStdioEvidence(place.taps),
      place,
      tap,
      // For servers on stdio the other entrance's test compares, with the same result expected.
      compare: proof && tap !== undefined,
    });
    columns.get(upstream)?.set(client, column);
  }
});
