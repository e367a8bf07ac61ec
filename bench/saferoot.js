// node bench/saferoot.js [--rounds N]: what it costs to reach a file through a SafeRoot, beside plain paths and the usual
// check by realpath. Needs a build. Medians of rounds that take turns, so that a busy moment meets all of them.
import { closeSync, mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { openRoot } from '../build/workspaces/saferoot/open-root.js';
import { createLinuxFs } from '../build/workspaces/saferoot/platform/linux-fs.js';
import { walkPath } from '../build/workspaces/saferoot/walk-path.js';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' } } });
const rounds = Number(values.rounds);
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bench-')));
const root = openRoot(folder);
const platformFs = createLinuxFs(false);
const handle = platformFs.openRoot(folder);

const subjects = {
  'resolve, plain stat': (path) => statSync(join(folder, path)),
  'resolve, realpath and compare': (path) => {
    if (!realpathSync(join(folder, path)).startsWith(`${folder}/`)) throw new Error('outside');
  },
  'resolve, SafeRoot': (path) => walkPath(platformFs, handle, path).release(),
  'stat, SafeRoot': (path) => root.stat(path),
  'open and close, plain, sync': (path) => closeSync(openSync(join(folder, path))),
  'open and close, plain': async (path) => (await open(join(folder, path))).close(),
  'open and close, SafeRoot': async (path) => (await root.open(path)).close(),
  'read 1 KB, SafeRoot': (path) => root.read(path),
  'replace 1 KB, SafeRoot': (path) => root.replace(path, content),
};

const content = 'x'.repeat(1024);
const paths = [1, 5, 10].map((depth) => ({ depth, path: `${'folder/'.repeat(depth - 1)}file` }));
for (const { path } of paths) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

/** What the clock says, and what of it this process worked: the rest is waiting, or the machine being busy. */
async function measure(work, path, times) {
  const [began, used] = [process.hrtime.bigint(), process.cpuUsage()];
  for (let n = 0; n < times; n++) await work(path);
  const { user, system } = process.cpuUsage(used);
  return { clock: Number(process.hrtime.bigint() - began) / 1000 / times, processor: (user + system) / times };
}

const median = (numbers) => numbers.sort((one, other) => one - other)[Math.floor(numbers.length / 2)];
const figures = new Map(Object.keys(subjects).map((name) => [name, paths.map(() => [])]));
try {
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(subjects)) {
      for (const [column, { path }] of paths.entries()) {
        const figure = await measure(work, path, 300);
        // The first round warms up.
        if (round > 0) figures.get(name)[column].push(figure);
      }
    }
  }
} finally {
  platformFs.release(handle);
  root.close();
  rmSync(folder, { recursive: true });
}

console.log(`Microseconds, clock / processor, medians of ${rounds} rounds, Node ${process.version}\n`);
console.log(`${'depth'.padEnd(32)}${paths.map(({ depth }) => String(depth).padStart(18)).join('')}`);
for (const [name, columns] of figures) {
  const cells = columns.map((column) =>
    ['clock', 'processor']
      .map((of) =>
        median(column.map((figure) => figure[of]))
          .toFixed(1)
          .padStart(7),
      )
      .join(' / '),
  );
  console.log(`${name.padEnd(32)}${cells.map((cell) => cell.padStart(18)).join('')}`);
}
