import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { ambitBin, type RunningAmbit, startAmbit } from '../start-ambit.ts';
import { speaksModern } from './checks/missing-features.ts';
import type { Script } from './checks/upstream-scripts.ts';
import type { Target } from './connect/mcp-client.ts';
import { type InspectorEra, type InspectorFeature, inspectorFeatures, runInspector, toArguments } from './inspector.ts';
import { type Column, type Outcome, printGrid } from './print-grid.ts';
import {
  createFolders,
  findScript,
  type HttpUpstream,
  listStdioArguments,
  startHttpUpstream,
  type TestFolders,
  type UpstreamName,
} from './upstreams.ts';

type Cell = readonly [name: string, era: InspectorEra, way: 'serve' | 'run'];

const overHttp: readonly UpstreamName[] = ['everything http', 'fixture http'];
const served: Readonly<Record<'leg' | 'aut' | 'mod', Cell>> = {
  leg: ['leg', 'legacy', 'serve'],
  aut: ['aut', 'auto', 'serve'],
  mod: ['mod', 'modern', 'serve'],
};
const plan: Readonly<Record<UpstreamName, readonly Cell[]>> = {
  'everything stdio': [served.leg, served.aut, served.mod, ['run', 'legacy', 'run']],
  'everything http': [served.leg, served.aut, served.mod],
  filesystem: [served.leg, served.aut, ['run', 'legacy', 'run']],
  'fixture stdio': [served.leg, served.aut, served.mod, ['run', 'modern', 'run']],
  'fixture http': [served.leg, served.mod],
};
const upstreams = Object.keys(plan) as UpstreamName[];
const serverName = (upstream: UpstreamName) => upstream.replace(' ', '-');
const columns = new Map(upstreams.map((upstream) => [upstream, new Map<string, Column>()]));
let place: TestFolders;
let home: string;
let running: HttpUpstream[] = [];
let ambit: RunningAmbit;
let token: string;

beforeAll(() => {
  place = createFolders();
  home = join(place.folder, 'home');
  mkdirSync(home);
});

afterAll(() => place?.remove());

function urlOf(upstream: UpstreamName): { url: string } | undefined {
  const index = overHttp.indexOf(upstream);
  return index === -1 ? undefined : { url: running[index]!.url };
}

function directly(upstream: UpstreamName): Target {
  const http = urlOf(upstream);
  return http === undefined ? { kind: 'stdio', args: listStdioArguments(upstream, place) } : { kind: 'http', ...http };
}

function through(upstream: UpstreamName, way: 'serve' | 'run'): Target {
  if (way === 'serve') return { kind: 'http', url: ambit.mcp(serverName(upstream)), token };
  const places = ['--config', join(place.folder, 'none.yaml'), '--data-dir', join(place.folder, 'data')];
  const args = [ambitBin, 'run', '--trust', 'direct', ...places, '--', process.execPath];
  return { kind: 'stdio', args: [...args, ...listStdioArguments(upstream, place)] };
}

/** The CLI shows no roots, so the files it can see are those the server was started with. */
function scriptFor(upstream: UpstreamName): Script {
  const own = findScript(upstream, place);
  if (upstream !== 'filesystem') return own;
  return { ...own, call: { tool: 'list_allowed_directories', says: join(place.folder, 'start') } };
}

/** So that a feature cannot go missing unnoticed. */
function lacks(upstream: UpstreamName, era: InspectorEra, feature: string): boolean {
  if (feature === 'logging' && era !== 'legacy') return true;
  return upstream === 'filesystem' && ['resources', 'prompts', 'logging'].includes(feature);
}

/** An error counts as the server's or the CLI's own only when it comes without Ambit too. */
async function ask(upstream: UpstreamName, [, era, way]: Cell, feature: InspectorFeature): Promise<Outcome> {
  const { args, says } = toArguments(feature, scriptFor(upstream));
  const { result, error } = await runInspector(home, era, through(upstream, way), args);
  if (error === undefined) {
    expect(JSON.stringify(result)).toContain(JSON.stringify(says).slice(1, -1));
    return { mark: '✓' };
  }
  const direct = await runInspector(home, era, directly(upstream), args);
  expect(direct.error?.message).toBe(error.message);
  return { mark: '–', reason: error.message.replace(/\. Supported .*/, '') };
}

// One call, because a run of the Inspector is a process that answers one question. The SDK's clients try the rest in
// test/journeys/cells; the Inspector is a client that Ambit did not choose.
test('the Inspector calls a tool through ambit run', async () => {
  expect(await ask('fixture stdio', ['run', 'modern', 'run'], 'call a tool')).toEqual({ mark: '✓' });
});

describe.runIf(proof)('every feature of the Inspector', () => {
  beforeAll(async () => {
    running = await Promise.all(overHttp.map(startHttpUpstream));
    const servers: Record<string, unknown> = {};
    for (const upstream of upstreams) {
      const http = urlOf(upstream);
      servers[serverName(upstream)] = http ?? { command: process.execPath, args: listStdioArguments(upstream, place) };
    }
    ambit = await startAmbit({ servers });
    ({ token } = await ambit.session());
  });

  afterAll(async () => {
    const title = 'The Inspector CLI, through ambit serve and ambit run';
    process.stdout.write(`\n${printGrid(title, inspectorFeatures, columns)}\n`);
    await ambit?.stop();
    await Promise.all(running.map((server) => server.stop()));
  });

  test('the CLI has no command for ping, completion and subscriptions', async () => {
    for (const method of ['ping', 'completion/complete', 'resources/subscribe']) {
      const { error } = await runInspector(home, 'legacy', directly('fixture http'), [method]);
      expect(error?.message).toContain(`Unsupported method: ${method}`);
    }
  });

  test.concurrent.each(upstreams)('%s answers the Inspector', async (upstream) => {
    for (const cell of plan[upstream]) {
      const [name, era] = cell;
      if (era !== 'legacy' && !speaksModern(upstream)) {
        columns.get(upstream)?.set(name, 'over the bridge: see cells');
        continue;
      }
      const outcomes = new Map<string, Outcome>();
      for (const feature of inspectorFeatures) outcomes.set(feature, await ask(upstream, cell, feature));
      columns.get(upstream)?.set(name, outcomes);
      const absent = [...outcomes].filter(([, { mark }]) => mark === '–').map(([feature]) => feature);
      expect(absent).toEqual([...outcomes.keys()].filter((feature) => lacks(upstream, era, feature)));
    }
  });
});
