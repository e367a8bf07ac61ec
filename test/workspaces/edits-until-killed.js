// Writes, moves and removes files in the folder it is given, as fast as it can, until somebody kills it.
import { createHash } from 'node:crypto';
import { openLocal } from '../../build/workspaces/backends/local/open-local.js';
import { createPathRules } from '../../build/workspaces/path-guard.js';

const [, , folder, round] = process.argv;
const files = openLocal(folder, { rules: createPathRules({ hide: [], keep: [], open: [] }), durable: false });

/** Tells by itself whether it is whole. */
function content(n) {
  const body = `${round} ${n} `.repeat(1 + ((n * 7919) % 40_000));
  return Buffer.from(`${createHash('sha256').update(body).digest('hex')}\n${body}`);
}

process.stdout.write('ready\n');
for (let n = 0; ; n++) {
  const path = `folder-${n % 3}/file-${n % 7}`;
  await files.write(path, content(n));
  if (n % 5 === 0) await files.move(path, `moved/file-${n % 4}`, { overwrite: true });
  if (n % 11 === 0) await files.remove(`folder-${n % 3}`, { recursive: true }).catch(() => {});
}
