import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { startBearerProxy } from '../bearer-proxy.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { startFixture } from './fixture.ts';
import { cannotPass, namesNothing } from './mixed-cells.ts';
import { startRenamingProxy } from './renaming-proxy.ts';
import { conformanceTable, type Revision, runConformance, type ScenarioOutcome } from './run-conformance.ts';

const push = { sampling: true, elicitation: true, roots: true };
const command = {
  command: process.execPath,
  args: [join(repository, 'test/fixtures/conformance/stdio.js')],
  push,
};
const fixtures: Awaited<ReturnType<typeof startFixture>>[] = [];
let ambit: RunningAmbit;

async function fixture(): Promise<Record<string, unknown>> {
  const started = await startFixture();
  fixtures.push(started);
  return { url: started.url, push };
}

beforeAll(async () => {
  const [http, other] = await Promise.all([fixture(), fixture()]);
  ambit = await startAmbit({
    servers: {
      stdio: command,
      http,
      'stdio-modern': { ...command, era: 'modern' },
      'stdio-handshake': { ...command, era: 'handshake' },
      'http-modern': { ...other, era: 'modern' },
      'http-handshake': { ...other, era: 'handshake' },
    },
  });
});

afterAll(async () => {
  await ambit?.stop();
  await Promise.all(fixtures.map((each) => each.stop()));
});

type Proxy = typeof startBearerProxy;
type Transport = 'stdio' | 'http';

/** In a session that may use that server only. */
async function through(
  server: string,
  path: string,
  revision: Revision,
  start: Proxy = startBearerProxy,
): Promise<ScenarioOutcome[]> {
  const { token } = await ambit.session({ servers: [server] });
  const proxy = await start(`${ambit.url}${path}`, token);
  try {
    return await runConformance({ url: proxy.url, revision });
  } finally {
    proxy.stop();
  }
}

const failed = (outcomes: ScenarioOutcome[]) =>
  outcomes.filter((outcome) => outcome.scored && !outcome.ok).map((outcome) => outcome.scenario);

// One transport each, and both of them for the proof; through-ambit takes them the other way round.
describe.each<[Revision, Transport]>([
  ['2026-07-28', 'stdio'],
  ['2025-11-25', 'http'],
])('conformance %s', (revision, transport) => {
  const other = revision === '2026-07-28' ? 'handshake' : 'modern';
  const transports: readonly Transport[] = proof ? ['stdio', 'http'] : [transport];

  test('through /mcp, and with an upstream of the other era', { timeout: 120_000 }, async () => {
    const all = (run: (link: Transport) => Promise<ScenarioOutcome[]>) => Promise.all(transports.map(run));
    // With the names as they are only for the proof: who names nothing is not touched by the proxy that shortens them.
    const [plain, named, crossing] = await Promise.all([
      proof ? all((link) => through(link, '/mcp', revision)) : [],
      all((link) => through(link, '/mcp', revision, (url, token) => startRenamingProxy(url, token, link))),
      all((link) => through(`${link}-${other}`, `/mcp/${link}-${other}`, revision)),
    ]);
    const columns = { '/mcp': plain, 'short names': named, [other]: crossing };
    const table = conformanceTable(
      Object.fromEntries(
        Object.entries(columns).flatMap(([name, runs]) =>
          runs.map((outcomes, index) => [`${name} ${transports[index]}`, outcomes] as const),
        ),
      ),
    );
    const reasons = cannotPass[revision].map(({ scenario, reason }) => `  ${scenario}: ${reason}`);
    process.stdout.write(`\nMCP ${revision}\n${table}\n${reasons.join('\n')}\n`);

    for (const outcomes of [...plain, ...named]) {
      expect(outcomes.filter(({ ok }) => ok).map(({ scenario }) => scenario)).toEqual(
        expect.arrayContaining([...namesNothing[revision]]),
      );
    }
    for (const outcomes of named) expect(failed(outcomes)).toEqual([]);
    const expected = cannotPass[revision].map(({ scenario }) => scenario);
    for (const outcomes of crossing) expect(failed(outcomes)).toEqual(expected);
  });
});
