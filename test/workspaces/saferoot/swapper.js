// node swapper.js FOLDER [OUT]: until it is killed, makes FOLDER/d by turns the folder it was and a link out, in two ways:
// by moving the folder away and a link to its place, and by a link that leads in and out by turns.
import { lstatSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

const [folder, outward = '../../outside'] = process.argv.slice(2);
const [target, kept, out, fresh] = ['d', 'kept', 'out', 'fresh'].map((name) => join(folder, name));
const inward = 'kept';
let seed = 1;

symlinkSync(outward, out);
process.stdout.write('swapping\n');
process.stdin.on('end', () => process.exit()).resume();
turn();

/** Another turn only between batches, so that the end of the caller is noticed and no time is lost else. */
function turn() {
  for (let n = 0; n < 200; n++) moveAway();
  move(target, kept);
  for (let n = 0; n < 200; n++) relink(n % 2 === 0 ? inward : outward);
  move(target, fresh);
  move(kept, target);
  setImmediate(turn);
}

function moveAway() {
  move(target, kept);
  move(out, target);
  dwell(20);
  move(target, out);
  move(kept, target);
  dwell(100);
}

/** A number from 0 to 1 out of a sequence that is the same in every run. */
function nextShare() {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
}

/** Waits up to so many microseconds: a swap that always took the same time could miss the same instants for ever. */
function dwell(most) {
  const end = process.hrtime.bigint() + BigInt(Math.floor(nextShare() * most * 1000));
  while (process.hrtime.bigint() < end);
}

function relink(to) {
  // What the last batch left is used up first; `existsSync` would ask what a link leads to.
  if (lstatSync(fresh, { throwIfNoEntry: false }) === undefined) symlinkSync(to, fresh);
  move(fresh, target);
  dwell(to === inward ? 100 : 20);
}

/** Who makes missing folders may have made one while there was none; it is in the way and goes. */
function move(from, to) {
  for (;;) {
    try {
      return renameSync(from, to);
    } catch (error) {
      if (!['ENOTEMPTY', 'EISDIR', 'EEXIST'].includes(error.code)) throw error;
      removeObstacle(to);
    }
  }
}

function removeObstacle(path) {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch (error) {
    // Written into meanwhile; the next attempt takes it.
    if (error.code !== 'ENOTEMPTY') throw error;
  }
}
