import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import type { RawClient } from '../../gateway/raw-client.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts, proof } from '../../proof.ts';
import { processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { repository } from '../../structure/source-files.ts';
import { waitUntilEmpty } from '../wait-until.ts';
import { createSandboxFolder } from './sandbox-gateway.ts';

const { folder, open, use: useAs, close } = createSandboxFolder('greedy');
const began = performance.now();
const calls = counts(20, 1000);
const node = (path: string) => ({ command: process.execPath, args: [join(repository, 'test', path)] });
let gateway: EmbeddedGateway;

beforeAll(async () => {
  const limits = { memoryMb: 200, pids: 40, cpus: 0.5 };
  const greedy = { ...node('sandbox/bwrap/greedy-server.js'), sandbox: limits };
  for (const name of ['one', 'two']) mkdirSync(join(folder, name));
  gateway = await open({
    servers: { hungry: greedy, greedy: { ...greedy, timeoutSeconds: 1 }, calm: node('fixtures/recorder/stdio.js') },
    workspaces: { one: { path: join(folder, 'one') }, two: { path: join(folder, 'two') } },
  });
});

afterAll(close);

const use = (server: string, workspaceId: string) => useAs(server, { trustLevel: 'sandboxed', workspaceId });

/** The durations of a neighbour's calls in milliseconds, one after the other. */
async function latencies(client: RawClient): Promise<{ p50: string; p95: string }> {
  const taken: number[] = [];
  for (let call = 0; call < calls; call++) {
    const asked = performance.now();
    expect(await client.call('shuffle', { marker: `m${call}`, ms: 0 })).toBe(`m${call}`);
    taken.push(performance.now() - asked);
  }
  taken.sort((one, other) => one - other);
  const at = (share: number) => (taken[Math.floor(taken.length * share)] ?? 0).toFixed(1);
  return { p50: at(0.5), p95: at(0.95) };
}

describe.skipIf(!hasBwrap())('beside a server that takes all it can get', () => {
  const endings: Readonly<Record<string, RegExp>> = {
    eat: /^UPSTREAM_FAILED: The server "hungry" was ended: it .* sandbox\.memoryMb is 200/,
    fork: /^UPSTREAM_(?:TIMEOUT|FAILED)/,
    fill: /^UPSTREAM_TIMEOUT/,
    spin: /^UPSTREAM_TIMEOUT/,
    flood: /^UPSTREAM_(?:TIMEOUT|FAILED)/,
  };
  let calm: Awaited<ReturnType<typeof use>> | undefined;
  let before: Awaited<ReturnType<typeof latencies>> | undefined;
  const deeds = Object.keys(endings);

  /** All at once, which costs a few seconds; the proof measures what each does to a neighbour. */
  test.each(proof ? deeds.map((deed) => [[deed]]) : [[deeds]])(
    '%j: another session works on, and nothing is left',
    async (together) => {
      calm ??= await use('calm', 'two');
      // The first calls warm up.
      if (before === undefined) await latencies(calm.client);
      before ??= await latencies(calm.client);
      const greedy = await Promise.all(
        together.map(async (deed) => ({ deed, ...(await use(deed === 'eat' ? 'hungry' : 'greedy', 'one')) })),
      );
      const suffering = greedy.map(({ deed, client }) => client.call(deed));
      const beside = await latencies(calm.client);
      for (const [at, said] of (await Promise.all(suffering)).entries()) {
        expect(said).toMatch(endings[together[at] as string] as RegExp);
      }
      console.log(
        `${together.join()}: a neighbour's call, ms: calm ${JSON.stringify(before)}, beside ${JSON.stringify(beside)}`,
      );
      // What they wrote stays in their own bounded /tmp. An empty ".git" and "HEAD" are there while any of them runs.
      expect(readdirSync(join(folder, 'one')).filter((name) => !['.git', 'HEAD'].includes(name))).toEqual([]);
      expect(JSON.parse(await calm.client.call('environment'))).toMatchObject({ AMBIT_SESSION_ID: calm.id });
      await Promise.all(greedy.map(({ id }) => gateway.endSession(id)));
      await waitUntilEmpty(() => processesIn(join(folder, 'one')), 5000);
    },
  );

  test('the journal takes a limited number of stderr lines per second', () => {
    const lines = readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8').split('\n');
    const said = lines.filter((line) => line.includes('"stderr"'));
    expect(said.length).toBeGreaterThan(0);
    // Fifty lines a second, for as long as there was anything to hear.
    expect(said.length).toBeLessThan(((performance.now() - began) / 1000 + 2) * 50);
  });
});
