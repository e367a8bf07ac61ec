// Runs outside, under whatever account: starts one sandbox with a copy of the build, and prints what it said.
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const { runner: kind, library, folder, asked, confinement, env, script } = JSON.parse(process.argv[2]);
const { createBwrapRunner, createContainerRunner } = await import(join(library, `runners/${kind}/${kind}.js`));
const { createTmpRoot } = await import(join(library, 'runners/sweep-leftovers.js'));
const { createWarden } = await import(join(library, 'runners/warden.js'));

const tmpRoot = await createTmpRoot(join(folder, 'data', 'tmp'));
const warden = createWarden({ tmpRoot });
const runner = (createContainerRunner ?? createBwrapRunner)({ warden, tmpRoot });
const { enforced, limits } = await runner.probe();
const cwd = confinement.home.inside;
const launch = { command: process.execPath, args: [script], env, cwd, tmpDir: join(tmpRoot, 'p1'), confinement };
const running = await runner.start(launch);
running.stderr.pipe(process.stderr);
const lines = createInterface({ input: running.stdout });
lines.once('line', async (line) => {
  const exit = await running.end();
  await warden.close();
  process.stdout.write(JSON.stringify({ enforced, limits, report: JSON.parse(line), exit }));
});
running.stdin.write(`${JSON.stringify(asked)}\n`);
