import { expect } from 'vitest';
import type { CheckParts } from './checks/check.ts';
import { listMissingFeatures, speaksModern } from './checks/missing-features.ts';
import { type Feature, featureNames, tryFeatures } from './checks/try-features.ts';
import { type ClientName, clients, connectClient } from './connect/connect-client.ts';
import type { Target } from './connect/mcp-client.ts';
import { type Evidence, readStdioEvidence, tapArguments } from './evidence/evidence.ts';
import type { HttpTap } from './evidence/tap-http.ts';
import { findStrayMessages } from './evidence/wire-log.ts';
import type { Column } from './print-grid.ts';
import { createFolders, findScript, listStdioArguments, type TestFolders, type UpstreamName } from './upstreams.ts';

/** One client at one upstream, through Ambit. */
export interface Row {
  readonly client: ClientName;
  readonly upstream: UpstreamName;
  readonly target: Target;
  readonly evidence: Evidence;
  readonly place: TestFolders;
  /** In front of the upstream, where that is reached over HTTP. */
  readonly tap: HttpTap | undefined;
  /** Whether to try without Ambit what does not work with it. */
  readonly compare: boolean;
}

/** Tries every feature, and fails when one does not work that works without Ambit. */
export async function runRow(row: Row): Promise<Column> {
  // Clients of the other era cross a bridge: those cells are tried in test/journeys/cells.
  const { era } = clients[row.client];
  if (era === 'modern' && !speaksModern(row.upstream)) return 'over the bridge: see cells';
  const visited = await connectToUpstream(row);
  expect(visited.client.era).toBe(era);
  const outcomes = await tryFeatures(visited, featureNames);
  const absent = featureNames.filter((name) => outcomes.get(name)?.mark === '–');
  for (const name of row.compare ? await tryWithoutAmbit(row, absent) : []) {
    outcomes.set(name, { mark: '✗', reason: 'it works without Ambit' });
  }
  const failed = [...outcomes].filter(([, { mark }]) => mark === '✗');
  expect({ client: row.client, failed }).toEqual({ client: row.client, failed: [] });
  expect(absent).toEqual(featureNames.filter((name) => listMissingFeatures(row.upstream, era).includes(name)));
  expect(findStrayMessages(visited.client.wire)).toEqual([]);
  return outcomes;
}

async function tryWithoutAmbit(row: Row, names: readonly Feature[]): Promise<Feature[]> {
  if (names.length === 0) return [];
  const place = createFolders();
  try {
    const direct = await connectToUpstream({ ...row, ...targetWithoutAmbit({ ...row, place }), place });
    const outcomes = await tryFeatures(direct, names);
    await direct.client.close();
    return names.filter((name) => outcomes.get(name)?.mark !== '–');
  } finally {
    place.remove();
  }
}

function targetWithoutAmbit({ upstream, place, tap }: Row): Pick<Row, 'target' | 'evidence'> {
  if (tap !== undefined) return { target: { kind: 'http', url: tap.url }, evidence: tap.watch() };
  const args = [...tapArguments(place.taps), ...listStdioArguments(upstream, place)];
  return { target: { kind: 'stdio', args }, evidence: readStdioEvidence(place.taps) };
}

async function connectToUpstream({ client, upstream, target, evidence, place }: Row): Promise<CheckParts> {
  const connected = await connectClient(client, target, place.files);
  const token = target.kind === 'http' ? target.token : undefined;
  if (connected.era === 'handshake') {
    // Ambit answers a GET at once, not every server does: there the request has to do, and a round trip after it.
    if (token !== undefined) await connected.streamOpened;
    await evidence.listening();
    await connected.ping();
  }
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return {
    client: connected,
    script: findScript(upstream, place),
    evidence,
    folder: place.folder,
    isMixed: false,
    address: target.kind === 'http' ? { url: target.url, headers } : undefined,
  };
}
