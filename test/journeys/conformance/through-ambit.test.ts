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

describe.each<[Revision, number]>([
  ['2026-07-28', 37],
  ['2025-11-25', 30],
])('conformance %s', (revision, scored) => {
  test('every scored scenario passes through Ambit as it does directly', { timeout: 120_000 }, async () => {
    // What passes through Ambit passes directly: asked only for the proof, and to see whose fault a failure is.
    const direct = proof ? await runConformance({ url: fixture.url, revision }) : undefined;
    const [http, stdio] = await Promise.all([through('http', revision), through('stdio', revision)]);
    const columns = { ...(direct && { direct }), 'ambit → http': http, 'ambit → stdio': stdio };
    process.stdout.write(`\nMCP ${revision}\n${conformanceTable(columns)}\n`);
    for (const outcomes of Object.values(columns)) {
      const counted = outcomes.filter((outcome) => outcome.scored);
      expect(counted.filter((outcome) => !outcome.ok).map((outcome) => outcome.scenario)).toEqual([]);
      expect(counted).toHaveLength(scored);
    }
  });
});
