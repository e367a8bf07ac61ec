import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { startBearerProxy } from '../bearer-proxy.ts';
import { type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { compareRuns } from './compare-runs.ts';
import { type ComparedServer, listComparedServers } from './compared-servers.ts';
import { type ComparedRow, readComparedRows, resultsPath } from './conformance-page.ts';
import { startRenamingProxy } from './renaming-proxy.ts';
import { type Revision, runConformance } from './run-conformance.ts';
import { startConformanceServer } from './start-conformance-server.ts';

const push = { sampling: true, elicitation: true, roots: true };
const revisions: readonly Revision[] = ['2026-07-28', '2025-11-25', '2025-06-18'];

let fixture: Awaited<ReturnType<typeof startConformanceServer>>;
let ambit: RunningAmbit;
let servers: ComparedServer[];

/** Takes minutes, so `npm test` has a slice of it: through-all.test.ts. */
describe.runIf(proof)('conformance compared with a direct run', () => {
  beforeAll(async () => {
    fixture = await startConformanceServer();
    servers = listComparedServers(fixture.url);
    const entries = servers.flatMap(({ name, url, command, args = [] }) => [
      [`${name}-http`, { url, push }],
      ...(command ? [[`${name}-stdio`, { command, args, push }]] : []),
    ]);
    ambit = await startAmbit({ servers: Object.fromEntries(entries) });
  });

  afterAll(async () => {
    await ambit?.stop();
    await fixture?.stop();
  });

  test('the differences are those of the results file', async () => {
    const rows: ComparedRow[] = [];
    for (const server of servers)
      for (const revision of revisions) rows.push(...(await compareServer(server, revision)));
    process.stdout.write(`${JSON.stringify(rows, undefined, 2)}\n`);
    const own = rows.filter(({ server }) => server === 'fixture');
    if (process.env.AMBIT_WRITE_DOCS === '1') writeFileSync(resultsPath, `${JSON.stringify(own, undefined, 2)}\n`);
    expect(own).toEqual(readComparedRows());
  }, 1_800_000);
});

async function compareServer(server: ComparedServer, revision: Revision): Promise<ComparedRow[]> {
  const whole = true;
  const direct = await runConformance({ url: server.url, revision, whole });
  const rows: ComparedRow[] = [];
  for (const transport of server.command ? ['http', 'stdio'] : ['http']) {
    const name = `${server.name}-${transport}`;
    for (const address of ['/mcp/{server}', '/mcp']) {
      const { token } = await ambit.session({ servers: [name] });
      const proxy =
        address === '/mcp'
          ? await startRenamingProxy(`${ambit.url}/mcp`, token, name)
          : await startBearerProxy(ambit.mcp(name), token);
      const through = await runConformance({ url: proxy.url, revision, whole }).finally(() => proxy.stop());
      const differences = compareRuns(direct, through);
      rows.push({ server: server.name, revision, address, transport, total: direct.length, differences });
    }
  }
  return rows;
}
