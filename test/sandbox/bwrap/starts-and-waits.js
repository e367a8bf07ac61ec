// An Ambit to be killed: starts one sandbox, tells of it, and waits.
import { join } from 'node:path';
import { createTmpRoot } from '../../../build/sandbox/common/sweep-leftovers.js';
import { createReaper } from '../../../build/sandbox/reaper/reaper.js';

const [folder, does, kind = 'bwrap'] = process.argv.slice(2);
const { createBwrapRunner, createContainerRunner } = await import(`../../../build/sandbox/${kind}/${kind}.js`);
const tmpRoot = await createTmpRoot(join(folder, 'tmp'));
const reaper = createReaper({ tmpRoot });
const runner = (createContainerRunner ?? createBwrapRunner)({ reaper, tmpRoot });
const home = { source: join(folder, 'ws'), target: join(folder, 'ws') };
const limits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 64, openFiles: 256, wallSeconds: 3600 };
const confinement = { home, readable: [], writable: [], hidden: [], limits };
const tmpDir = join(tmpRoot, 'p1');
const running = await runner.start({
  command: process.execPath,
  args: [does, 'daemon'],
  env: {},
  cwd: home.source,
  tmpDir,
  confinement,
});
running.stdout.once('data', () => process.send({ reaper: reaper.pid, root: tmpRoot }));
