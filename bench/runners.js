// node bench/runners.js [--quick]: what it costs to start a server without a sandbox and in each one, with and without
// limits, and how long until it has answered for the first time. Needs a build; what this machine has not got is left out.
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { baseEnvironment } from '../build/sandbox/common/base-environment.js';
import { createTmpRoot } from '../build/sandbox/common/sweep-leftovers.js';
import { createReaper } from '../build/sandbox/reaper/reaper.js';
import { medians } from './measure.js';
import { openFirstResults } from './runners-first-result.js';
import { runnersToMeasure } from './runners-measured.js';

const everything = join(import.meta.dirname, '../node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const trivial = join(import.meta.dirname, 'trivial-server.js');
const programs = {
  true: ['true'],
  trivial: [process.execPath, trivial],
  everything: [process.execPath, everything, 'stdio'],
};
const limits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 1024, openFiles: 1024, wallSeconds: 3600 };
const clientInfo = { name: 'bench', version: '1' };
const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
const question = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`;

/** The runners take turns, so that a busy moment meets all of them. The first round warms up. */
export async function measureRunners({ quick = false } = {}) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bench-runners-')));
  const tmpRoot = await createTmpRoot(join(folder, 'tmp'));
  const workspace = join(folder, 'workspace');
  mkdirSync(workspace);
  const reaper = createReaper({ tmpRoot });
  const results = await runnersToMeasure({ reaper, tmpRoot });
  const ambit = await openFirstResults({ folder, workspace, server: trivial });
  try {
    for (let round = 0; round <= (quick ? 3 : 15); round++) {
      console.error(`starts, round ${round}`);
      for (const result of results) {
        const figures = {};
        for (const [name, program] of Object.entries(programs)) {
          // Runners that do not know of each other must not share a workspace.
          const own = join(folder, `workspace-${results.indexOf(result)}`);
          mkdirSync(own, { recursive: true });
          const { started, done } = await life(result, program, { tmpRoot, workspace: own });
          figures[`${name}StartedMs`] = started;
          figures[`${name}DoneMs`] = done;
        }
        if (result.isUsual) figures.firstResultMs = await ambit.firstResult(result.name);
        if (round > 0) result.rounds.push(figures);
      }
    }
  } finally {
    await ambit.close();
    await reaper.close();
    rmSync(folder, { recursive: true, force: true });
  }
  return results.map(({ name, by, rounds }) => ({ name, limits: by, figures: medians(rounds) }));
}

let count = 0;

/** Milliseconds: until the runner has it started, and until it has answered or, having nothing to say, has left. */
async function life({ name, runner }, [command, ...args], { tmpRoot, workspace }) {
  const tmpDir = join(tmpRoot, `p${++count}`);
  const launch = { command, args, cwd: workspace, tmpDir };
  const home = { source: workspace, target: workspace };
  const confinement = { home, readable: [], writable: [], hidden: [], limits };
  const began = performance.now();
  const running = await runner.start(
    name === 'plain'
      ? { ...launch, env: baseEnvironment(process.env, tmpDir, {}) }
      : { ...launch, env: {}, confinement },
  );
  const started = performance.now() - began;
  running.stderr.resume();
  const answered = new Promise((accept) => running.stdout.once('data', accept));
  running.stdin.write(question);
  await Promise.race([answered, running.exited]);
  const done = performance.now() - began;
  await running.end();
  return { started, done };
}

const columns = [
  ['runner', 10, ({ name }) => name],
  ['limits by', 10, ({ limits: by }) => by],
  ['true', 7, ({ figures }) => shown(figures.trueDoneMs)],
  ['started', 8, ({ figures }) => shown(figures.trivialStartedMs)],
  ['answered', 8, ({ figures }) => shown(figures.trivialDoneMs)],
  ['everything', 10, ({ figures }) => shown(figures.everythingDoneMs)],
  ['by Ambit', 8, ({ figures }) => shown(figures.firstResultMs)],
];
const shown = (ms) => (ms === undefined ? '–' : ms.toFixed(1));

export function runnersTable(results) {
  const line = (cells) =>
    cells
      .map((cell, index) => (index < 2 ? String(cell).padEnd(columns[index][1]) : cell.padStart(columns[index][1])))
      .join('  ');
  return [
    'Starting a server, in ms. True: until the program "true" has ended. Started, answered: the trivial server, until it',
    'is there and until it has answered its handshake. Everything: the same answer of server-everything. By Ambit: from',
    'opening a session to the first result of a tool of the trivial server.',
    line(columns.map(([title]) => title)),
    line(columns.map(([, width]) => '─'.repeat(width))),
    ...results.map((result) => line(columns.map(([, , cell]) => cell(result)))),
  ].join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(runnersTable(await measureRunners({ quick: process.argv.includes('--quick') })));
}
