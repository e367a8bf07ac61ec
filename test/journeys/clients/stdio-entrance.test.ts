import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { proof } from '../../proof.ts';
import { ambitBin } from '../start-ambit.ts';
import { featureNames } from './checks/try-features.ts';
import { clientLegend, testedClients } from './connect/connect-client.ts';
import { readStdioEvidence, tapArguments } from './evidence/evidence.ts';
import { type Column, printGrid } from './print-grid.ts';
import { runRow } from './run-row.ts';
import { createFolders, listStdioArguments, type UpstreamName } from './upstreams.ts';

// test/journeys/cells has these upstreams behind `ambit serve`; that `ambit run` serves every feature takes one of them.
const upstreams: readonly UpstreamName[] = proof
  ? ['everything stdio', 'filesystem', 'fixture stdio']
  : ['fixture stdio'];
const columns = new Map(upstreams.map((upstream) => [upstream, new Map<string, Column>()]));

afterAll(() => {
  process.stdout.write(
    `\n${printGrid(`Clients over stdio, through ambit run\n${clientLegend}`, featureNames, columns)}\n`,
  );
});

test.concurrent.each(upstreams)('%s serves every client of its era', async (upstream) => {
  for (const client of testedClients) {
    const place = createFolders();
    const places = ['--config', join(place.folder, 'none.yaml'), '--data-dir', join(place.folder, 'data')];
    const server = [process.execPath, ...tapArguments(place.taps), ...listStdioArguments(upstream, place)];
    try {
      const column = await runRow({
        client,
        upstream,
        target: { kind: 'stdio', args: [ambitBin, 'run', '--trust', 'direct', ...places, '--', ...server] },
        evidence: readStdioEvidence(place.taps),
        place,
        tap: undefined,
        compare: proof,
      });
      columns.get(upstream)?.set(client, column);
    } finally {
      place.remove();
    }
  }
});
