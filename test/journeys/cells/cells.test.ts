import { afterAll, beforeAll, expect, test } from 'vitest';
import { grid } from './grid.ts';
import type { Result } from './results.ts';
import { runGroup } from './run-group.ts';
import { installedServers } from './servers/install.ts';
import { groups, upstreams } from './upstreams.ts';

const results: Result[] = [];

beforeAll(async () => {
  await installedServers();
}, 300_000);

afterAll(() => {
  const names = upstreams.map(({ name }) => name);
  process.stdout.write(`${grid(results, names)}\n`);
});

test.concurrent.each(groups.map((group) => [group.map(({ name }) => name).join(', '), group] as const))(
  'every client gets what there is from %s',
  { timeout: 180_000 },
  async (_names, group) => {
    const found = await runGroup(group);
    results.push(...found);
    const failed = found.flatMap(({ entrance, client, upstream, outcomes }) =>
      [...outcomes].flatMap(([feature, outcome]) =>
        outcome.kind === 'fails' ? [`${entrance} ${client} ${upstream} ${feature}: ${outcome.reason}`] : [],
      ),
    );
    expect(failed).toEqual([]);
  },
);
