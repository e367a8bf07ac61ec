import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../proof.ts';
import { fixtureServer } from './hostile/start-watched-ambit.ts';
import {
  callModern,
  type JsonClient,
  modernHeaders,
  modernRequest,
  openClient,
  type PostAnswer,
  post,
  readOutcome,
} from './json-mcp-client.ts';
import { type RunningAmbit, repository, startAmbit } from './start-ambit.ts';

const node = process.execPath;
const server = join(repository, 'test/fixtures/reloaded/server.js');
const good = ['one', 'two', 'three', 'four', 'five', 'six'];
const promisedMs = 10_000;

function behaving(name: string, env: Record<string, string> = {}): Record<string, unknown> {
  return { command: node, args: [server], env: { MARK: name, ...env } };
}

const well = Object.fromEntries(
  good.map((name, at) => [name, behaving(name, { ERA: at % 2 === 0 ? 'modern' : 'handshake' })]),
);
const broken = {
  hangs: fixtureServer('never-answers.js'),
  crashes: fixtureServer('exits-at-once.js'),
  late: behaving('late', { LIST_MS: '3000' }),
  dies: behaving('dies'),
};

interface Asking {
  list(): Promise<PostAnswer>;
  call(name: string): Promise<string>;
}

async function ofEra(era: 'modern' | 'handshake', ambit: RunningAmbit): Promise<Asking> {
  const { token } = await ambit.session();
  const url = `${ambit.url}/mcp`;
  if (era === 'modern') {
    return {
      list: () => post(url, token, JSON.stringify(modernRequest(1, 'tools/list')), modernHeaders('tools/list')),
      call: async (name) => readOutcome(await callModern(url, token, name)),
    };
  }
  // Capabilities of its own, or the catalog would know the answer from the other era's question.
  const client: JsonClient = await openClient(url, token, { roots: {} });
  return {
    list: () => client.send({ id: 1, method: 'tools/list', params: {} }),
    call: async (name) => readOutcome(await client.call(name)),
  };
}

/** The servers with a tool in the list, and those that are named as missing. */
function read(said: PostAnswer) {
  const result = said.messages.at(-1)?.result as {
    tools: { name: string }[];
    _meta?: { 'ambit/unavailable'?: { server: string; reason: string }[] };
  };
  return {
    listed: [...new Set(result.tools.map((tool) => tool.name.split('__')[0] as string))],
    missing: result._meta?.['ambit/unavailable'] ?? [],
  };
}

async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const began = performance.now();
  const value = await work();
  return [performance.now() - began, value];
}

/** Milliseconds of each of so many calls, one after the other, to the good servers in turn. */
async function latencies(asking: Asking, calls: number): Promise<number[]> {
  const taken: number[] = [];
  for (let at = 0; at < calls; at++) {
    const name = good[at % good.length] as string;
    const [ms, answer] = await timed(() => asking.call(`${name}__mark`));
    expect(answer).toBe(name);
    taken.push(ms);
  }
  return taken.sort((a, b) => a - b);
}

const at = (sorted: number[], share: number) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1);

/** To compare with; the figures are the proof's. */
let calm: RunningAmbit | undefined;
let troubled: RunningAmbit;

beforeAll(async () => {
  if (proof) calm = await startAmbit({ servers: well });
  troubled = await startAmbit({ servers: { ...broken, ...well } });
});

afterAll(async () => {
  await Promise.all([calm?.stop(), troubled?.stop()]);
});

// A list waits for the server that hangs: both eras wait at the same time, except where times are measured.
describe.each(['modern', 'handshake'] as const)(
  'ten servers behind /mcp, asked in the %s era',
  { concurrent: !proof },
  (era) => {
    let asking: Asking;

    beforeAll(async () => {
      asking = await ofEra(era, troubled);
    });

    test.sequential('the list comes within its time limit, without the broken servers, and names them', async () => {
      // A list waits for nobody beyond its bound. Outside the proof, which measures that, the good ones run already.
      if (!proof) await Promise.all(good.map((name) => asking.call(`${name}__mark`)));
      const [first, one] = await timed(asking.list);
      const [second, two] = await timed(asking.list);
      process.stdout.write(`\n${era}: tools/list ${first.toFixed(0)} ms at first, ${second.toFixed(0)} ms then\n`);
      if (proof) expect(first).toBeLessThan(promisedMs);
      if (proof) expect(second).toBeLessThan(promisedMs);
      for (const said of [one, two]) {
        const { listed: shown, missing } = read(said);
        // Ambit's own tools belong to no server.
        const listed = shown.filter((name) => !name.startsWith('session_'));
        expect(listed).toEqual(expect.arrayContaining(good));
        expect(listed).not.toContain('hangs');
        expect(listed).not.toContain('crashes');
        const reasons = Object.fromEntries(missing.map((each) => [each.server, each.reason]));
        expect(reasons.hangs).toMatch(/^UPSTREAM_TIMEOUT: /);
        expect(reasons.crashes).toMatch(/^UPSTREAM_FAILED: .*"crashes"/);
        // Every server is in the list or in the account of what is missing, never in both or in neither.
        const all = [...Object.keys(broken), ...good].sort();
        expect([...listed, ...missing.map((each) => each.server)].sort()).toEqual(all);
      }
    });

    test.sequential('calls to the good ones are unharmed while one dies again and again', async () => {
      const calls = counts(24, 600);
      await latencies(asking, good.length);
      const quiet = calm && (await ofEra(era, calm));
      if (quiet !== undefined) await latencies(quiet, good.length);
      const before = quiet && (await latencies(quiet, calls));
      let on = true;
      let deaths = 0;
      const dying = (async () => {
        while (on) {
          expect(await asking.call('dies__crash')).toMatch(/^!UPSTREAM_FAILED/);
          deaths++;
        }
      })();
      const hanging = asking.call('hangs__mark');
      const during = await latencies(asking, calls);
      on = false;
      await dying;
      process.stdout.write(
        `\n${era}: ${calls} calls ${before === undefined ? '' : `p50 ${at(before, 0.5)} ms, p99 ${at(before, 0.99)} ms calm; `}` +
          `p50 ${at(during, 0.5)} ms, p99 ${at(during, 0.99)} ms with one hanging and ${deaths} crashes beside\n`,
      );
      expect(deaths).toBeGreaterThan(0);
      void hanging.catch(() => {});
    });

    test.sequential('a server that lists late is there once it has answered', async () => {
      while (!read(await asking.list()).listed.includes('late')) await delay(100);
      expect(await asking.call('late__mark')).toBe('late');
    });
  },
);
