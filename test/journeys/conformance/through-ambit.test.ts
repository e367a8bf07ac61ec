import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { startBearerProxy } from '../bearer-proxy.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { startFixture } from './fixture.ts';
import { conformanceTable, type Revision, runConformance, type ScenarioOutcome } from './run-conformance.ts';

const push = { sampling: true, elicitation: true, roots: true };
let fixture: Awaited<ReturnType<typeof startFixture>>;
let ambit: RunningAmbit;
let token: string;

beforeAll(async () => {
  fixture = await startFixture();
  const stdio = join(repository, 'test/fixtures/conformance/stdio.js');
  ambit = await startAmbit({
    servers: {
      http: { url: fixture.url, push },
      stdio: { command: process.execPath, args: [stdio], push },
    },
  });
  ({ token } = await ambit.session());
});

afterAll(async () => {
  await ambit?.stop();
  await fixture?.stop();
});

async function through(server: string, revision: Revision): Promise<ScenarioOutcome[]> {
  const proxy = await startBearerProxy(ambit.mcp(server), token);
  try {
    return await runConformance({ url: proxy.url, revision });
  } finally {
    proxy.stop();
  }
}

// One transport each, and both of them for the proof; through-all takes them the other way round.
describe.each<[Revision, number, 'http' | 'stdio']>([
  ['2026-07-28', 37, 'http'],
  ['2025-11-25', 30, 'stdio'],
])('conformance %s', (revision, scored, transport) => {
  test('every scored scenario passes through Ambit as it does directly', { timeout: 120_000 }, async () => {
    // What passes through Ambit passes directly: asked only for the proof, and to see whose fault a failure is.
    const direct = proof ? await runConformance({ url: fixture.url, revision }) : undefined;
    const servers = proof ? ['http', 'stdio'] : [transport];
    const runs = await Promise.all(servers.map((server) => through(server, revision)));
    const columns = {
      ...(direct && { direct }),
      ...Object.fromEntries(servers.map((server, index) => [`ambit → ${server}`, runs[index]!])),
    };
    process.stdout.write(`\nMCP ${revision}\n${conformanceTable(columns)}\n`);
    for (const outcomes of Object.values(columns)) {
      const counted = outcomes.filter((outcome) => outcome.scored);
      expect(counted.filter((outcome) => !outcome.ok).map((outcome) => outcome.scenario)).toEqual([]);
      expect(counted).toHaveLength(scored);
    }
  });
});
