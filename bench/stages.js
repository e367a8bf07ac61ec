// node bench/stages.js [--quick]: where the time of a call goes inside Ambit, stage by stage. Needs a build.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createGateway } from '../dist/index.js';
import { HANDSHAKE, MODERN } from './messages.js';
import { run } from './processes.js';

const load = fileURLToPath(new URL('load.js', import.meta.url));
const server = fileURLToPath(new URL('trivial-server.js', import.meta.url));

// The gateway runs in this process, the load in another: one session, one call at a time, so that times never mix.
export async function measureStages({ quick = false } = {}) {
  const job = { sessions: 1, warmup: quick ? 500 : 3000, calls: quick ? 1500 : 10_000 };
  const eras = [];
  for (const era of [MODERN, HANDSHAKE]) {
    console.error(`stages, ${era}`);
    eras.push({ era, ...(await measureEra(era, job)) });
  }
  return eras;
}

async function measureEra(era, job) {
  const dataDir = mkdtempSync(join(tmpdir(), 'ambit-bench-stages-'));
  const watch = watchCalls();
  const gateway = await createGateway({
    config: {
      version: 1,
      sessions: { defaultTrust: 'direct' },
      quotas: { session: { callsPerMinute: 1_000_000 } },
      servers: { trivial: { command: process.execPath, args: [server] } },
    },
    dataDir,
    log: { info() {}, warn() {} },
    watchStages: watch.hear,
  });
  try {
    const { token } = await gateway.createSession();
    const { url } = await gateway.listen({ port: 0 });
    const target = { url: `${url}/mcp/trivial`, tokens: [token], era };
    const { p50Ms } = JSON.parse(await run(process.execPath, [load], { input: JSON.stringify({ target, ...job }) }));
    return condensed(watch.calls().slice(-job.calls), p50Ms * 1000);
  } finally {
    await gateway.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

// A stage's own time is what passes between its coming in and its passing on, and between coming back and leaving.
function watchCalls() {
  const calls = [];
  let first;
  let call;
  let last = 0;
  const add = (stage, until) => {
    call.set(stage, (call.get(stage) ?? 0) + until - last);
  };
  function hear(stage, step) {
    const now = performance.now();
    first ??= stage;
    if (stage === first && step === 'in') call = new Map();
    // What lies between two stages belongs to neither: it is what watching them costs.
    else if (step === 'on' || step === 'out') add(stage, now);
    if (stage === first && step === 'out') calls.push(call);
    last = performance.now();
  }
  return { hear, calls: () => calls };
}

function condensed(calls, wholeUs) {
  // They are first heard of when they pass the call on, so in the order of the pipeline.
  const stages = [...calls.at(-1).keys()].map((name) => ({
    name,
    us: median(calls.map((call) => (call.get(name) ?? 0) * 1000)),
  }));
  return { wholeUs, stages };
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

const widths = [20, 10, 7, 12, 7];

export function stagesTable(eras) {
  const [modern] = eras;
  const own = eras.map(({ stages }) => total(stages.filter(({ name }) => name !== 'forward')));
  const row = (cells) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : String(cell).padStart(widths[i]))).join('  ');
  const line = (name, values, shares) => row([name, ...values.flatMap((us, i) => [us.toFixed(1), shares[i]])]);
  const percent = (us, of) => `${((us / of) * 100).toFixed(1)} %`;
  const ofWhole = (values) => values.map((us, i) => percent(us, eras[i].wholeUs));
  const at = (name) => eras.map(({ stages }) => stages.find((stage) => stage.name === name)?.us ?? 0);
  const entrance = eras.map(({ wholeUs, stages }) => wholeUs - total(stages));
  const rows = modern.stages.filter(({ name }) => name !== 'forward').map(({ name }) => [name, at(name)]);
  return [
    'Stage by stage: µs of a call (medians) that a stage takes for itself, and its share of the whole call.',
    row(['stage', 'modern µs', 'share', 'handshake µs', 'share']),
    row(widths.map((width) => '─'.repeat(width))),
    ...rows.map(([name, values]) => line(name, values, ofWhole(values))),
    line('all of these', own, ofWhole(own)),
    line('forward and server', at('forward'), ofWhole(at('forward'))),
    line('HTTP and the client', entrance, ofWhole(entrance)),
    line(
      'the whole call',
      eras.map(({ wholeUs }) => wholeUs),
      ['', ''],
    ).trimEnd(),
  ].join('\n');
}

function total(stages) {
  return stages.reduce((sum, { us }) => sum + us, 0);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(stagesTable(await measureStages({ quick: process.argv.includes('--quick') })));
}
