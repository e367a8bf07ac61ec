import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { startBearerProxy } from '../bearer-proxy.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { cannotPass, namesNothing, type Revision } from './mixed-cells.ts';
import { startRenamingProxy } from './renaming-proxy.ts';
import { conformanceTable, type RunOptions, runConformance, type ScenarioOutcome } from './run-conformance.ts';
import { startConformanceServer } from './start-conformance-server.ts';

const push = { sampling: true, elicitation: true, roots: true };
const command = {
  command: process.execPath,
  args: [join(repository, 'test/fixtures/conformance/stdio.js')],
  push,
};
const fixtures: Awaited<ReturnType<typeof startConformanceServer>>[] = [];
let ambit: RunningAmbit;

async function fixture(): Promise<{ url: string; push: typeof push }> {
  const started = await startConformanceServer();
  fixtures.push(started);
  return { url: started.url, push };
}

beforeAll(async () => {
  const http = await fixture();
  // Runs at the same time must not change each other's server, so those of the proof have one more.
  const other = proof ? await fixture() : http;
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
  run: Revision | Omit<RunOptions, 'url'>,
  start: Proxy = startBearerProxy,
): Promise<ScenarioOutcome[]> {
  const { token } = await ambit.session({ servers: [server] });
  const proxy = await start(`${ambit.url}${path}`, token);
  try {
    return await runConformance({ url: proxy.url, ...(typeof run === 'string' ? { revision: run } : run) });
  } finally {
    proxy.stop();
  }
}

const failed = (outcomes: ScenarioOutcome[]) =>
  outcomes.filter((outcome) => outcome.scored && !outcome.ok).map((outcome) => outcome.scenario);

interface Plan {
  /** How many scenarios the revision scores. */
  readonly scored: number;
  /** The transports behind `/mcp`, where names are shortened for the suite. */
  readonly named: readonly Transport[];
  /** The transports to an upstream of the other era, at `/mcp/{server}`. */
  readonly crossing: readonly Transport[];
  /** The transports to an upstream of the same era, at `/mcp/{server}`. */
  readonly alone: readonly Transport[];
  /** The results at `/mcp` with unchanged names. */
  readonly plain: readonly Transport[];
}

// A run of the suite takes seconds of processor time. `npm test` has two: every scored scenario of both revisions,
// both addresses and both transports. Of 2025-06-18 it has one scenario; `npm run proof` has all (compared.test.ts).
// The bridge between the eras is tested with real servers in every run, by journeys/cells.
const both: readonly Transport[] = ['stdio', 'http'];
const plans: Readonly<Record<Revision, Plan>> = {
  '2026-07-28': proof
    ? { scored: 37, named: both, crossing: both, alone: both, plain: both }
    : { scored: 37, named: ['stdio'], crossing: [], alone: [], plain: [] },
  '2025-11-25': proof
    ? { scored: 30, named: both, crossing: both, alone: both, plain: both }
    : { scored: 30, named: [], crossing: [], alone: ['http'], plain: [] },
};

describe.concurrent.each<Revision>(['2026-07-28', '2025-11-25'])('conformance %s', (revision) => {
  const { scored, named, crossing, alone, plain } = plans[revision];
  const other = revision === '2026-07-28' ? 'handshake' : 'modern';

  test('every scored scenario passes through Ambit', async () => {
    const columns = new Map<string, ScenarioOutcome[]>();
    const run = (title: string, links: readonly Transport[], work: (link: Transport) => Promise<ScenarioOutcome[]>) =>
      Promise.all(
        links.map(async (link) => {
          const outcomes = await work(link);
          columns.set(`${title} ${link}`, outcomes);
          return outcomes;
        }),
      );
    const runNamed = () =>
      run('short names', named, (link) =>
        through(link, '/mcp', revision, (url, token) => startRenamingProxy(url, token, link)),
      );
    const runCrossing = () =>
      run(other, crossing, (link) => through(`${link}-${other}`, `/mcp/${link}-${other}`, revision));
    const [shortened, crossed] = await Promise.all([runNamed(), runCrossing()]);
    // Without Ambit too, which tells whose fault a failure is.
    if (proof) columns.set('direct', await runConformance({ url: fixtures[0]!.url, revision }));
    const atOne = await run('/mcp/{server}', alone, (link) => through(link, `/mcp/${link}`, revision));
    const asNamed = await run('/mcp', plain, (link) => through(link, '/mcp', revision));

    const reasons = cannotPass[revision].map(({ scenario, reason }) => `  ${scenario}: ${reason}`);
    const table = conformanceTable(Object.fromEntries(columns));
    process.stdout.write(`\nMCP ${revision}\n${table}\n${reasons.join('\n')}\n`);

    for (const outcomes of [...shortened, ...atOne, ...(proof ? [columns.get('direct')!] : [])]) {
      expect(failed(outcomes)).toEqual([]);
      expect(outcomes.filter((outcome) => outcome.scored)).toHaveLength(scored);
    }
    // At the address of all servers the suite's names lead nowhere, but what names nothing must pass as it is.
    for (const outcomes of asNamed) {
      expect(outcomes.filter(({ ok }) => ok).map(({ scenario }) => scenario)).toEqual(
        expect.arrayContaining([...namesNothing[revision]]),
      );
    }
    const expected = cannotPass[revision].map(({ scenario }) => scenario);
    for (const outcomes of crossed) expect(failed(outcomes)).toEqual(expected);
  });
});

test.concurrent('conformance 2025-06-18: a call that asks the user passes through Ambit', async () => {
  const run = { revision: '2025-06-18', scenario: 'tools-call-elicitation' } as const;
  const outcomes = await through('http', '/mcp', run, (url, token) => startRenamingProxy(url, token, 'http'));
  expect(outcomes).toMatchObject([{ scenario: run.scenario, ok: true, passed: 2 }]);
});
