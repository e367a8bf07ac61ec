// The load generator, a process of its own. Reads one job as JSON on stdin, prints one JSON line on stdout.
// A wrong answer ends it with exit 1.
import { readFileSync } from 'node:fs';
import { closedLoop } from './closed-loop.js';
import { openHttpLane } from './http-lane.js';
import { openStdioLane } from './stdio-lane.js';

const { target, sessions, warmup, calls } = JSON.parse(readFileSync(0, 'utf8'));
const lanes = [];
try {
  for (let session = 1; session <= sessions; session++) {
    const token = target.tokens?.[session - 1];
    const open = target.url === undefined ? openStdioLane : openHttpLane;
    lanes.push(await open({ ...target, session, token }));
  }
  console.log(JSON.stringify(await closedLoop(lanes, { warmup, calls })));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  for (const lane of lanes) lane.close();
}
