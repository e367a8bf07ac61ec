import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { page, pagePath } from './compatibility-page.ts';
import { promised } from './predict-results.ts';
import { grid } from './print-grid.ts';
import { runGroups, type Visitors } from './run-groups.ts';
import { installedServers } from './servers/install.ts';
import { groups, upstreams } from './upstreams.ts';

beforeAll(async () => {
  await installedServers();
});

// One client for each group: every client has its turn, and each pair of eras over each transport.
const visitors: readonly Visitors[] = [
  { all: 'v1' },
  { all: 'auto', alone: { client: 'legacy', upstream: 'fixture-modern-http' } },
  { all: 'pinned' },
  { all: 'legacy' },
];

test('every cell works or is named, and the page says so', async () => {
  const results = await runGroups(groups, visitors);
  const names = upstreams.map(({ name }) => name);
  process.stdout.write(`${grid(results, names)}\n`);
  const failed = results.flatMap(({ entrance, client, upstream, outcomes }) =>
    [...outcomes].flatMap(([feature, outcome]) =>
      outcome.kind === 'fails' ? [`${entrance} ${client} ${upstream} ${feature}: ${outcome.reason}`] : [],
    ),
  );
  expect(failed).toEqual([]);
  const written = page([...results, ...promised(upstreams, results)], upstreams);
  if (process.env.AMBIT_WRITE_DOCS === '1') writeFileSync(pagePath, written);
  expect(written).toBe(readFileSync(pagePath, 'utf8'));
});
