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
const ambits: RunningAmbit[] = [];

async function start(servers: Record<string, unknown>): Promise<RunningAmbit> {
  const ambit = await startAmbit({ servers });
  ambits.push(ambit);
  return ambit;
}

async function fixture(): Promise<string> {
  const started = await startFixture();
  fixtures.push(started);
  return started.url;
}

afterAll(async () => {
  await Promise.all(ambits.map((ambit) => ambit.stop()));
  await Promise.all(fixtures.map((each) => each.stop()));
});

let overHttp: RunningAmbit;
let overStdio: RunningAmbit;
let mixed: RunningAmbit;

beforeAll(async () => {
  if (proof) overHttp = await start({ fix: { url: await fixture(), push } });
  overStdio = await start({ fix: command });
  const http = proof ? { url: await fixture(), push } : undefined;
  mixed = await start({
    ...(http && { 'http-modern': { ...http, era: 'modern' }, 'http-handshake': { ...http, era: 'handshake' } }),
    'stdio-modern': { ...command, era: 'modern' },
    'stdio-handshake': { ...command, era: 'handshake' },
  });
});

type Proxy = typeof startBearerProxy;
const renaming: Proxy = (target, token) => startRenamingProxy(target, token, 'fix');

async function through(
  ambit: RunningAmbit,
  path: string,
  revision: Revision,
  start: Proxy = startBearerProxy,
): Promise<ScenarioOutcome[]> {
  const { token } = await ambit.session();
  const proxy = await start(`${ambit.url}${path}`, token);
  try {
    return await runConformance({ url: proxy.url, revision });
  } finally {
    proxy.stop();
  }
}

const inProof = <T>(run: () => T): T[] => (proof ? [run()] : []);

const failed = (outcomes: ScenarioOutcome[]) =>
  outcomes.filter((outcome) => outcome.scored && !outcome.ok).map((outcome) => outcome.scenario);

describe.each<Revision>(['2026-07-28', '2025-11-25'])('conformance %s', (revision) => {
  const other = revision === '2026-07-28' ? 'handshake' : 'modern';

  test('through /mcp, and with an upstream of the other era', { timeout: 120_000 }, async () => {
    // Over HTTP only for the proof: it is the link that differs, and through-ambit tries both kinds. With the names as
    // they are too: who names nothing is not touched by the proxy that shortens them.
    const runs = {
      plain: proof ? [through(overStdio, '/mcp', revision), through(overHttp, '/mcp', revision)] : [],
      named: [
        through(overStdio, '/mcp', revision, renaming),
        ...inProof(() => through(overHttp, '/mcp', revision, renaming)),
      ],
      mixed: [
        through(mixed, `/mcp/stdio-${other}`, revision),
        ...inProof(() => through(mixed, `/mcp/http-${other}`, revision)),
      ],
    };
    const plain = await Promise.all(runs.plain);
    const named = await Promise.all(runs.named);
    const crossing = await Promise.all(runs.mixed);
    const columns = { '/mcp': plain, 'short names': named, [other]: crossing };
    const table = conformanceTable(
      Object.fromEntries(
        Object.entries(columns).flatMap(([name, [stdio, http]]) => [
          ...(stdio === undefined ? [] : [[`${name} stdio`, stdio] as const]),
          ...(http === undefined ? [] : [[`${name} http`, http] as const]),
        ]),
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
