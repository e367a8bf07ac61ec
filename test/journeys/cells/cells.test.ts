import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { readComparedRows, writeConformancePart } from '../conformance/conformance-page.ts';
import { readRegistryPart } from '../foreign/registry-page.ts';
import { pagePath, writePage } from './compatibility-page.ts';
import { predictResults } from './predict-results.ts';
import { printGrid } from './print-grid.ts';
import { type GroupClients, runGroups } from './run-groups.ts';
import { installServers } from './servers/install.ts';
import { groups, upstreams } from './upstreams.ts';

beforeAll(async () => {
  await installServers();
});

// One client for each group: every client has its turn, and each pair of eras over each transport.
const visitors: readonly GroupClients[] = [
  { all: 'v1' },
  { all: 'auto', alone: { client: 'legacy', upstream: 'fixture-modern-http' } },
  { all: 'pinned' },
  { all: 'legacy' },
];

test('every combination works or has a named reason, and the page says so', async () => {
  const results = await runGroups(groups, visitors);
  const names = upstreams.map(({ name }) => name);
  process.stdout.write(`${printGrid(results, names)}\n`);
  const failed = results.flatMap(({ entrance, client, upstream, outcomes }) =>
    [...outcomes].flatMap(([feature, outcome]) =>
      outcome.kind === 'fails' ? [`${entrance} ${client} ${upstream} ${feature}: ${outcome.reason}`] : [],
    ),
  );
  expect(failed).toEqual([]);
  // The rest of the page is written by the test of servers from registries, which runs in proof.
  const rest = readRegistryPart(readFileSync(pagePath, 'utf8'));
  const page = writePage([...results, ...predictResults(upstreams, results)], upstreams);
  const written = `${page}${writeConformancePart(readComparedRows())}${rest}`;
  if (process.env.AMBIT_WRITE_DOCS === '1') writeFileSync(pagePath, written);
  expect(written).toBe(readFileSync(pagePath, 'utf8'));
});
