// node bench/runners.js [--rounds N]: what it costs to start a server without and with a sandbox, and how long until it
// has answered for the first time. Needs a build and bwrap. The runners take turns, so that a busy moment meets both.
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createBwrapRunner } from '../build/runners/bwrap/bwrap.js';
import { baseEnvironment } from '../build/runners/environment.js';
import { createLimiter } from '../build/runners/limits/limiter.js';
import { createPlainRunner } from '../build/runners/plain.js';
import { createTmpRoot } from '../build/runners/sweep-leftovers.js';
import { createWarden } from '../build/runners/warden.js';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '15' } } });
const rounds = Number(values.rounds);
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bench-')));
const tmpRoot = await createTmpRoot(join(folder, 'tmp'));
const home = join(folder, 'workspace');
mkdirSync(home);
const warden = createWarden({ tmpRoot });
const plain = createPlainRunner({ warden });
/** The same sandbox, bounded by the kernel where that can be, and by a look from time to time. */
const runners = {
  plain,
  bwrap: createBwrapRunner({ warden, tmpRoot }),
  'bwrap, watched': createBwrapRunner({ warden, tmpRoot, limiter: createLimiter([]) }),
};
const everything = join(import.meta.dirname, '../node_modules/@modelcontextprotocol/server-everything/dist/index.js');

const limits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 1024, openFiles: 1024, wallSeconds: 3600 };
const place = { real: home, inside: home };
const confinement = { home: place, readable: [], writable: [], hidden: [], limits };
const programs = {
  true: { command: 'true', args: [] },
  'node -e 0': { command: process.execPath, args: ['-e', '0'] },
  'trivial server, first result': { command: process.execPath, args: [join(import.meta.dirname, 'trivial-server.js')] },
  'server-everything, first result': { command: process.execPath, args: [everything, 'stdio'] },
};
const clientInfo = { name: 'bench', version: '1' };
const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
const question = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`;
let count = 0;

/** Milliseconds: until the runner has it started, and until it has answered or, having nothing to say, has left. */
async function life(runner, { command, args }) {
  const tmpDir = join(tmpRoot, `p${++count}`);
  const launch = { command, args, cwd: home, tmpDir };
  const began = performance.now();
  const running =
    runner === plain
      ? await runner.start({ ...launch, env: baseEnvironment(process.env, tmpDir, {}) })
      : await runner.start({ ...launch, env: {}, confinement });
  const started = performance.now() - began;
  running.stderr.resume();
  const answered = new Promise((accept) => running.stdout.once('data', accept));
  running.stdin.write(question);
  await Promise.race([answered, running.exited]);
  const done = performance.now() - began;
  await running.end();
  return { started, done };
}

const median = (numbers) => numbers.sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
const figures = new Map();
try {
  const { limits: inForce } = await runners.bwrap.probe();
  console.log(`limits of bwrap by: ${JSON.stringify(inForce)}`);
  for (let round = 0; round <= rounds; round++) {
    for (const [name, program] of Object.entries(programs)) {
      for (const [called, runner] of Object.entries(runners)) {
        const figure = await life(runner, program);
        const key = `${name}\t${called}`;
        // The first round warms up.
        if (round > 0) figures.set(key, [...(figures.get(key) ?? []), figure]);
      }
    }
  }
} finally {
  await warden.close();
  rmSync(folder, { recursive: true, force: true });
}

console.log(`${'program'.padEnd(34)}${'runner'.padEnd(16)}${'started ms'.padStart(12)}${'done ms'.padStart(12)}`);
for (const [key, all] of figures) {
  const [name, runner] = key.split('\t');
  const [started, done] = ['started', 'done'].map((what) => median(all.map((figure) => figure[what])).toFixed(1));
  console.log(`${name.padEnd(34)}${runner.padEnd(16)}${started.padStart(12)}${done.padStart(12)}`);
}
