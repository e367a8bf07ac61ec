// An Ambit to be killed: starts one sandbox, tells of it, and waits.
import { join } from 'node:path';
import { createTmpRoot } from '../../../build/sandbox/common/sweep-leftovers.js';
import { createWarden } from '../../../build/sandbox/reaper/reaper.js';

const [folder, does, kind = 'bwrap'] = process.argv.slice(2);
const { createBwrapRunner, createContainerRunner } = await import(`../../../build/sandbox/${kind}/${kind}.js`);
const tmpRoot = await createTmpRoot(join(folder, 'tmp'));
const warden = createWarden({ tmpRoot });
const runner = (createContainerRunner ?? createBwrapRunner)({ warden, tmpRoot });
const home = { real: join(folder, 'ws'), inside: join(folder, 'ws') };
const limits = { memoryMb: 512, pids: 64, cpus: 1, fileMb: 64, openFiles: 256, wallSeconds: 3600 };
const confinement = { home, readable: [], writable: [], hidden: [], limits };
const tmpDir = join(tmpRoot, 'p1');
const running = await runner.start({
  command: process.execPath,
  args: [does, 'daemon'],
  env: {},
  cwd: home.real,
  tmpDir,
  confinement,
});
running.stdout.once('data', () => process.send({ warden: warden.pid, root: tmpRoot }));
