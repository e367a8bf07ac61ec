// node bench/files.js [--quick]: the file tools over stdio beside the published filesystem server and plain fs, in one run.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findRipgrep } from '../build/workspaces/search/ripgrep.js';
import { ambitFiles, plainFiles, publishedFiles } from './files-subjects.js';

const mebibyte = 1024 * 1024;

export async function measureFiles({ quick = false } = {}) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bench-files-')));
  const workspace = join(folder, 'workspace');
  const files = quick ? 500 : 2000;
  plant(workspace, files);
  const subjects = [plainFiles(workspace), await publishedFiles(workspace), await ambitFiles(folder, workspace)];
  try {
    const rounds = quick ? 2 : 5;
    const figures = subjects.map(({ label }) => ({ label, read: [], edit: [], list: [], search: [] }));
    for (let round = 0; round <= rounds; round++) {
      console.error(`files, round ${round} of ${rounds}`);
      for (const operation of ['read', 'edit', 'list', 'search']) {
        const times = operation === 'search' ? 10 : quick ? 100 : 300;
        for (const [index, subject] of subjects.entries()) {
          const worked = subject.cpuMs();
          const clock = await timed(() => subject[operation](), times);
          // The first round warms up.
          if (round > 0) figures[index][operation].push({ clock, processor: (subject.cpuMs() - worked) / times });
        }
      }
    }
    const rows = figures.map(({ label, ...operations }) => ({ label, ...mapped(operations, middle) }));
    const ambit = subjects[2];
    return { files, rows, large: await measureLarge(workspace, ambit, quick), grep: await measureGrep(folder, quick) };
  } finally {
    for (const subject of subjects) await subject.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function plant(workspace, files) {
  mkdirSync(join(workspace, 'one/two/three/four'), { recursive: true });
  const line = (n) => `export const value${n} = ${n}; // some words that are longer than the number\n`;
  const text = Array.from({ length: 100 }, (_, n) => line(n)).join('');
  writeFileSync(join(workspace, 'one/two/three/four/read.ts'), text);
  writeFileSync(join(workspace, 'one/two/three/four/edit.ts'), text.replace('value50 =', 'before ='));
  for (let n = 0; n < files; n++) {
    const inside = join(workspace, `package-${n % 20}`, `part-${n % 7}`);
    mkdirSync(inside, { recursive: true });
    writeFileSync(join(inside, `file-${n}.${n % 10 === 0 ? 'json' : 'ts'}`), line(n));
  }
  mkdirSync(join(workspace, 'listed'));
  for (let n = 0; n < 200; n++) writeFileSync(join(workspace, 'listed', `entry-${n}.txt`), 'x'.repeat(n));
}

// A file of 1 GiB, a few lines at a time from all over it: what it costs, and whether the process grows.
async function measureLarge(workspace, ambit, quick) {
  const size = (quick ? 128 : 1024) * mebibyte;
  const descriptor = openSync(join(workspace, 'large.log'), 'w');
  const block = Buffer.from('a line of a log that somebody wants to look at now\n'.repeat(20_560));
  for (let written = 0; written < size; written += block.length) writeSync(descriptor, block);
  closeSync(descriptor);
  const lines = Math.floor(size / block.length) * 20_560;
  const before = ambit.residentMb();
  const times = [];
  let most = before;
  for (let at = 0; at < 20; at++) {
    const startLine = 1 + Math.floor((lines * at) / 20);
    times.push(await timed(() => ambit.readLines('large.log', startLine, startLine + 100), 1));
    most = Math.max(most, ambit.residentMb());
  }
  rmSync(join(workspace, 'large.log'));
  return { megabytes: size / mebibyte, ms: median(times), firstMs: times[0], lastMs: times.at(-1), before, most };
}

async function measureGrep(folder, quick) {
  const workspace = join(folder, 'many');
  const files = quick ? 5000 : 50_000;
  for (let n = 0; n < files; n++) {
    const inside = join(workspace, `a-${n % 50}`, `b-${Math.floor(n / 50) % 50}`);
    if (n < 2500) mkdirSync(inside, { recursive: true });
    writeFileSync(
      join(inside, `f-${n}.ts`),
      `import { thing } from './other-${n}';\nexport const n = ${n};\n// ${'words '.repeat(60)}\n`,
    );
  }
  const program = await findRipgrep(process.env.PATH);
  if (program === undefined) throw new Error('there is no ripgrep to compare with');
  const ambit = await ambitFiles(folder, workspace);
  try {
    const bare = [];
    const ours = [];
    for (let round = 0; round < (quick ? 3 : 7); round++) {
      ours.push(await timed(() => ambit.grep('n = 4999[0-9]?;'), 1));
      bare.push(await timed(async () => ripgrep(program, workspace), 1));
    }
    return { files, ambitMs: median(ours), ripgrepMs: median(bare) };
  } finally {
    await ambit.close();
  }
}

function ripgrep(program, workspace) {
  try {
    execFileSync(program, ['--no-config', '--json', 'n = 4999[0-9]?;', workspace], { maxBuffer: 64 * mebibyte });
  } catch (error) {
    if (error.status !== 1) throw error;
  }
}

async function timed(work, times) {
  const began = performance.now();
  for (let n = 0; n < times; n++) await work();
  return (performance.now() - began) / times;
}

const median = (numbers) => [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
const middle = (figures) => ({
  clock: median(figures.map(({ clock }) => clock)),
  processor: median(figures.map(({ processor }) => processor)),
});
const mapped = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));

export function filesTable({ files, rows, large, grep }) {
  const published = rows[1];
  const cell = (row, name) => {
    const times = row === published ? '' : ` (${(published[name].clock / row[name].clock).toFixed(1)} ×)`;
    return `${row[name].clock.toFixed(2)} / ${row[name].processor.toFixed(2)}${times}`.padStart(24);
  };
  const lines = [
    `Files, ms per call by the clock / of the server's processor time, ${files} files in the folder; in brackets: how many times faster\nthan the published server by the clock.`,
    `${'subject'.padEnd(22)}${['read', 'edit', 'list 200', 'search'].map((title) => title.padStart(24)).join('')}`,
    ...rows.map(
      (row) => `${row.label.padEnd(22)}${['read', 'edit', 'list', 'search'].map((name) => cell(row, name)).join('')}`,
    ),
    '',
    `100 lines out of a file of ${large.megabytes} MiB: ${large.ms.toFixed(1)} ms, the first ${large.firstMs.toFixed(1)}, the last ${large.lastMs.toFixed(1)}; ` +
      `resident memory ${large.before.toFixed(0)} MB before, ${large.most.toFixed(0)} MB at most.`,
    `grep in ${grep.files} files: Ambit ${grep.ambitMs.toFixed(0)} ms, bare ripgrep ${grep.ripgrepMs.toFixed(0)} ms: ` +
      `${(grep.ambitMs / grep.ripgrepMs).toFixed(2)} ×.`,
  ];
  return lines.join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(filesTable(await measureFiles({ quick: process.argv.includes('--quick') })));
}
