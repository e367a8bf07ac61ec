// Edits files in the folder `live` and copies that folder after each step that changes the file system. A copy shows
// what a kill at that step would leave. In the end the process kills itself in the middle of a write.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

const [, , place] = process.argv;
const live = join(place, 'live');
const { writeFileSync } = fs;
let edit = 'none';
let count = 0;
let isLastEdit = false;

function copyAfter(step) {
  if (isLastEdit && step === 'half a write') process.kill(process.pid, 'SIGKILL');
  const copy = join(place, String(count++).padStart(3, '0'));
  execFileSync('cp', ['-a', live, copy]);
  writeFileSync(`${copy}.json`, JSON.stringify({ edit, step }));
}

for (const step of ['linkSync', 'mkdirSync', 'renameSync', 'rmdirSync', 'unlinkSync']) {
  const original = fs[step];
  fs[step] = (...args) => {
    const result = original(...args);
    copyAfter(step);
    return result;
  };
}

const { openSync, writeSync } = fs;
const creates = (flags) => (typeof flags === 'string' ? !flags.startsWith('r') : (flags & fs.constants.O_CREAT) !== 0);
fs.openSync = (path, flags, mode) => {
  const descriptor = openSync(path, flags, mode);
  if (creates(flags)) copyAfter('openSync');
  return descriptor;
};
// A system may write less than it was asked to, so half of it is a right answer: the caller goes on with the rest.
const halfOf = (bytes, offset) => Math.ceil((bytes.length - offset) / 2);
let isHalf = false;
fs.writeSync = (descriptor, bytes, offset) => {
  isHalf = !isHalf;
  const written = isHalf
    ? writeSync(descriptor, bytes, offset, halfOf(bytes, offset))
    : writeSync(descriptor, bytes, offset);
  copyAfter(isHalf ? 'half a write' : 'writeSync');
  return written;
};

const { open } = fs.promises;
fs.promises.open = async (path, flags, mode) => {
  const handle = await open(path, flags, mode);
  if (!creates(flags)) return handle;
  copyAfter('open');
  const write = handle.write.bind(handle);
  handle.write = async (bytes, offset) => {
    isHalf = !isHalf;
    const result = isHalf ? await write(bytes, offset, halfOf(bytes, offset)) : await write(bytes, offset);
    copyAfter(isHalf ? 'half a write' : 'write');
    return result;
  };
  return handle;
};
syncBuiltinESMExports();

// Loaded only now: what they import is what was put in place above.
const { openLocal } = await import('../../build/workspaces/backends/local/open-local.js');
const { createPathRules } = await import('../../build/workspaces/path-guard.js');
const files = openLocal(live, { rules: createPathRules({ hide: [], keep: [], open: [] }) });
await files.swept;

/** Its first line is the digest of the rest, so a reader can tell whether it is whole. */
function content(text, times) {
  const body = `${text} `.repeat(times);
  return Buffer.from(`${createHash('sha256').update(body).digest('hex')}\n${body}`);
}
const small = (text) => content(text, 10);
// Too large to be written at once.
const large = (text) => content(text, 20_000);

const edits = {
  'write a new file': () => files.write('new/small', small('first')),
  'write over it': () => files.write('new/small', small('second')),
  'write a large new file': () => files.write('new/large', large('first')),
  'write over the large one': () => files.write('new/large', large('second')),
  'move a file': () => files.move('new/small', 'moved/small'),
  'move a file over another': () => files.move('moved/small', 'new/large', { overwrite: true }),
  'move a folder': () => files.move('new', 'moved/new'),
  'remove a file': () => files.remove('moved/new/large'),
  'fill a folder': async () => {
    await files.write('tree/one', small('one'));
    await files.write('tree/below/two', small('two'));
  },
  'remove a folder': () => files.remove('tree', { recursive: true }),
};
for (const [name, run] of Object.entries(edits)) {
  edit = name;
  await run();
}
edit = 'write until the kill';
isLastEdit = true;
await files.write('last', large('last'));
