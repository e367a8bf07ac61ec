// npm run bench [-- --quick] [--pin] [--only a,b] [--json FILE]: every subject under the same load, side by side in one run.
// Timings never fail the run; a wrong answer or a subject that does not start does.
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { codebaseTable, measureCodebase } from './codebase.js';
import { cpuTable, measureCpu } from './cpu.js';
import { filesTable, measureFiles } from './files.js';
import { injectionLine, measureInjection } from './injection.js';
import { measureOnce, medians } from './measure.js';
import { installPeers } from './peers.js';
import { plotOf } from './plot.js';
import { measureResolution, resolutionLine } from './resolution.js';
import { measureRunners, runnersTable } from './runners.js';
import { measureStages, stagesTable } from './stages.js';
import { measureStores, storesTable, writeStoresPlot } from './stores.js';
import { subjects } from './subjects.js';
import { tableOf, targetsOf } from './table.js';
import { compare, contextLine, judge } from './targets.js';
import { measureVerification, verificationLine } from './verification.js';

// V8 is still optimizing after some thousand calls, the longer the more code a subject has. A gateway runs for days.
const full = [
  { sessions: 1, warmup: 5000, calls: 5000 },
  { sessions: 16, warmup: 12_000, calls: 10_000 },
];
const quick = [
  { sessions: 1, warmup: 300, calls: 1200 },
  { sessions: 16, warmup: 800, calls: 3000 },
];

// Measured beside the subjects, each with a table of its own.
const parts = ['stages', 'stores', 'runners', 'files', 'codebase', 'cpu'];

const options = readOptions();
// One session is strictly serial. Where its processes happen to run decides most of its latency; on one core it cannot.
const plan = (options.quick ? quick : full).map((job) => ({ ...job, pinned: options.pin && job.sessions === 1 }));
const rounds = options.quick ? 1 : 3;
const results = options.chosen.map((subject) => ({ ...subject, rounds: [], figures: {}, failure: undefined }));

await preparePeers();
for (let round = 0; round < rounds; round++) {
  for (const job of plan) {
    for (const result of results) await measure(result, job, round);
  }
}
const stages = options.stages ? await measureStages({ quick: options.quick }) : undefined;
const stores = options.stores ? await measureStores({ quick: options.quick }) : undefined;
const files = options.files ? await measureFiles({ quick: options.quick }) : undefined;
const codebase = options.codebase ? await measureCodebase() : undefined;
const runners = options.runners ? await measureRunners({ quick: options.quick }) : undefined;
// Only on request: it takes longer than the rest and serves the comparison of two builds.
const cpu = options.cpu ? await measureCpu({ quick: options.quick }) : undefined;
const verification = await measureVerification();
const resolution = await measureResolution();
publish();

async function measure(result, job, round) {
  if (result.failure !== undefined) return;
  console.error(`round ${round + 1} of ${rounds}, sessions ${job.sessions}: ${result.label}`);
  try {
    result.rounds[round] = { ...result.rounds[round], [job.sessions]: await measureOnce(result, job) };
  } catch (error) {
    result.failure = error.message;
  }
}

async function preparePeers() {
  const peers = results.filter(({ peer }) => peer);
  if (peers.length === 0) return;
  try {
    await installPeers();
  } catch (error) {
    for (const peer of peers) peer.failure = `could not be installed: ${error.message}`;
  }
}

function publish() {
  const measured = results.filter(({ failure }) => failure === undefined);
  for (const result of measured) {
    for (const { sessions } of plan)
      result.figures[sessions] = medians(result.rounds.map((figures) => figures[sessions]));
  }
  compare(measured);
  const targets = judge(measured, rounds);
  const conditions = [
    rounds === 1 ? 'One round' : `Medians of ${rounds} rounds`,
    `Node ${process.version}`,
    `${cpus().length} cores`,
    ...(options.pin ? ['the single session on one core'] : []),
  ].join(', ');
  const sessionCounts = plan.map(({ sessions }) => sessions);
  const injection = measureInjection();
  const printed = [
    conditions,
    ...(results.length === 0 ? [] : [tableOf(measured, sessionCounts), targetsOf(targets), contextLine(measured)]),
    injectionLine(injection),
    resolutionLine(resolution),
    verificationLine(verification),
    ...(stages === undefined ? [] : [stagesTable(stages)]),
    ...(stores === undefined ? [] : [storesTable(stores)]),
    ...(runners === undefined ? [] : [runnersTable(runners)]),
    ...(files === undefined ? [] : [filesTable(files)]),
    ...(codebase === undefined ? [] : [codebaseTable(codebase)]),
    ...(cpu === undefined ? [] : [cpuTable(cpu)]),
  ];
  console.log(printed.join('\n\n'));

  const facts = {
    date: new Date().toISOString(),
    conditions,
    plan,
    subjects: measured.map(plain),
    targets,
    injection,
    resolution,
    verification,
    stages,
    stores,
    runners,
    files,
    codebase,
    cpu,
  };
  const document = `${JSON.stringify(facts, null, 2)}\n`;
  const folder = fileURLToPath(new URL('results/', import.meta.url));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'latest.json'), document);
  if (results.length > 0) writeFileSync(join(folder, 'latest.svg'), plotOf(measured, { subtitle: conditions }));
  if (stores !== undefined) writeStoresPlot(stores, folder, conditions);
  if (options.json) writeFileSync(options.json, document);

  for (const { label, failure } of results) {
    if (failure === undefined) continue;
    console.error(`FAILED ${label}: ${failure}`);
    process.exitCode = 1;
  }
}

function plain({ name, label, note, figures, rounds }) {
  return { name, label, note, figures, rounds };
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        quick: { type: 'boolean', default: false },
        pin: { type: 'boolean', default: false },
        only: { type: 'string' },
        json: { type: 'string' },
      },
    });
    const names = values.only?.split(',') ?? subjects.map(({ name }) => name);
    const unknown = names.find((name) => !parts.includes(name) && !subjects.some((subject) => subject.name === name));
    if (unknown !== undefined) throw new Error(`--only: no subject is called ${unknown}`);
    const [stages, stores, runners, files, codebase] = parts.map(
      (part) => values.only === undefined || names.includes(part),
    );
    const cpu = values.only !== undefined && names.includes('cpu');
    return {
      ...values,
      stages,
      stores,
      runners,
      files,
      codebase,
      cpu,
      chosen: subjects.filter(({ name }) => names.includes(name)),
    };
  } catch (error) {
    console.error(`${error.message}\nUsage: npm run bench -- [--quick] [--pin] [--only a,b] [--json FILE]`);
    console.error(`Subjects: ${subjects.map(({ name }) => name).join(', ')}, ${parts.join(', ')}`);
    process.exit(2);
  }
}
