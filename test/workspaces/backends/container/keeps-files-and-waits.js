// An Ambit to be killed: writes a file into a volume, tells of it, and waits.
import { join } from 'node:path';
import { createTmpRoot } from '../../../../build/sandbox/common/sweep-leftovers.js';
import { createContainerRunner } from '../../../../build/sandbox/container/container.js';
import { createReaper } from '../../../../build/sandbox/reaper/reaper.js';
import { createContainerBackends } from '../../../../build/workspaces/backends/container/container-backends.js';

const [folder, volume, program] = process.argv.slice(2);
const tmpRoot = await createTmpRoot(join(folder, 'tmp'));
const reaper = createReaper({ tmpRoot });
const runner = createContainerRunner({ reaper, tmpRoot });
const rules = { hidden: [], kept: [], open: [] };
const backends = createContainerBackends({ runner, tmpRoot, program, log: console });
const files = backends.open(volume, { rules, durable: true, fileBytes: 1024 });
await files.write('kept.txt', Buffer.from('before the end'));
process.send({ tmpRoot });
