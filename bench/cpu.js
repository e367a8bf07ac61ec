// npm run bench -- --only cpu: processor time per call of the gateway process alone (Linux). Needs a build.
// It hardly depends on what else the machine does, so it shows small differences that calls per second cannot show.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { MODERN } from './messages.js';
import { run } from './processes.js';
import { openAmbit, openFloor } from './subjects.js';

const load = fileURLToPath(new URL('load.js', import.meta.url));

const variants = [
  { label: 'floor', open: openFloor },
  { label: 'Ambit, no context', open: (wish) => openAmbit(wish, MODERN, { context: 'none' }) },
  { label: 'Ambit, signed context', open: (wish) => openAmbit(wish, MODERN, { context: 'full' }) },
  { label: 'Ambit, signed and rules', open: (wish) => openAmbit(wish, MODERN, { context: 'full', rules: true }) },
];

// All subjects run at the same time and take turns, so that a busy minute touches each of them.
export async function measureCpu({ quick = false, sessions = 16 } = {}) {
  const [warmup, calls, rounds] = quick ? [4000, 3000, 3] : [20_000, 8000, 7];
  const subjects = [];
  try {
    for (const { label, open } of variants) subjects.push({ label, samples: [], ...(await open({ sessions })) });
    for (const { target } of subjects) await runLoad(target, sessions, warmup);
    for (let round = 0; round < rounds; round++) {
      console.error(`cpu, round ${round + 1} of ${rounds}`);
      for (const { target, pid, samples } of subjects) {
        const before = readCpuNs(pid);
        await runLoad(target, sessions, calls);
        samples.push((readCpuNs(pid) - before) / 1000 / calls);
      }
    }
  } finally {
    await Promise.all(subjects.map(({ close }) => close()));
  }
  const [floor] = subjects;
  return subjects.map(({ label, samples }) => ({
    label,
    us: median(samples),
    least: Math.min(...samples),
    vsFloor: median(samples.map((us, round) => us / floor.samples[round])),
  }));
}

export function cpuTable(rows) {
  const line = (cells) => cells.map((cell, i) => (i === 0 ? cell.padEnd(24) : cell.padStart(10))).join('  ');
  return [
    'Processor time of the gateway process per call, µs, all threads: median and least of the rounds.',
    line(['subject', 'median', 'least', 'to floor']),
    ...rows.map(({ label, us, least, vsFloor }) =>
      line([label, us.toFixed(1), least.toFixed(1), `${vsFloor.toFixed(2)} ×`]),
    ),
  ].join('\n');
}

function runLoad(target, sessions, calls) {
  return run(process.execPath, [load], { input: JSON.stringify({ target, sessions, warmup: 0, calls }) });
}

// The first number of schedstat is the time a thread has run, in nanoseconds.
function readCpuNs(pid) {
  const folder = `/proc/${pid}/task`;
  return readdirSync(folder).reduce(
    (sum, thread) => sum + Number(readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')[0]),
    0,
  );
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(cpuTable(await measureCpu({ quick: process.argv.includes('--quick') })));
}
