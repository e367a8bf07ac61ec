import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { grid } from './grid.ts';
import { page, pagePath } from './page.ts';
import { runGroup } from './run-group.ts';
import { installedServers } from './servers/install.ts';
import { groups, upstreams } from './upstreams.ts';

beforeAll(async () => {
  await installedServers();
}, 300_000);

test('every cell works or is named, and the page says so', { timeout: 300_000 }, async () => {
  const results = (await Promise.all(groups.map(runGroup))).flat();
  const names = upstreams.map(({ name }) => name);
  process.stdout.write(`${grid(results, names)}\n`);
  const failed = results.flatMap(({ entrance, client, upstream, outcomes }) =>
    [...outcomes].flatMap(([feature, outcome]) =>
      outcome.kind === 'fails' ? [`${entrance} ${client} ${upstream} ${feature}: ${outcome.reason}`] : [],
    ),
  );
  expect(failed).toEqual([]);
  const written = page(results, upstreams);
  if (process.env.AMBIT_WRITE_DOCS === '1') writeFileSync(pagePath, written);
  expect(written).toBe(readFileSync(pagePath, 'utf8'));
});
