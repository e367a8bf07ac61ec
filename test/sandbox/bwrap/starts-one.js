// Runs outside, under whatever account: starts a sandbox with a copy of the build, prints what it said; then one with hosts.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const { runner: kind, library, folder, asked, confinement, env, scripts, hosts } = JSON.parse(process.argv[2]);
const { createBwrapRunner, createContainerRunner } = await import(join(library, `sandbox/${kind}/${kind}.js`));
const { openEgress } = await import(join(library, 'sandbox/egress/open-egress.js'));
const { createTmpRoot } = await import(join(library, 'sandbox/common/sweep-leftovers.js'));
const { createReaper } = await import(join(library, 'sandbox/reaper/reaper.js'));

const tmpRoot = await createTmpRoot(join(folder, 'data', 'tmp'));
const reaper = createReaper({ tmpRoot });
const runner = (createContainerRunner ?? createBwrapRunner)({ reaper, tmpRoot });
const { enforced, limits } = await runner.probe();
const cwd = confinement.home.target;
let launches = 0;
const launch = (...args) => {
  const tmpDir = join(tmpRoot, `p${++launches}`);
  return { command: process.execPath, args, env, cwd, tmpDir, confinement };
};

const running = await runner.start(launch(scripts.looksAround));
running.stderr.pipe(process.stderr);
running.stdin.write(`${JSON.stringify(asked)}\n`);
const { value: line } = await createInterface({ input: running.stdout })[Symbol.asyncIterator]().next();
const exit = await running.end();

const place = join(folder, 'data', 'egress');
mkdirSync(place, { mode: 0o700 });
const { allowed } = hosts;
const egress = await openEgress({ allowed, folder: place, onRefused() {} });
const reaching = await runner.start({
  ...launch(scripts.reaches, JSON.stringify({ places: hosts.places })),
  egressProxy: { socket: egress.socket, allowed },
});
reaching.stderr.pipe(process.stderr);
const { found } = JSON.parse(await text(reaching.stdout));
await reaching.exited;
await egress.close();
await reaper.close();
process.stdout.write(JSON.stringify({ enforced, limits, report: JSON.parse(line), exit, hosts: found }));
