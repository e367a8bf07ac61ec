import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { replaceWithBackup } from '../../../src/config/edit/backups.ts';

/** Puts a link in the place of each file as soon as the file is replaced. */
const attacker = `
const { lstatSync, renameSync } = require('node:fs');
const files = process.argv.slice(1);
const inode = (file) => lstatSync(file, { throwIfNoEntry: false })?.ino;
const before = files.map(inode);
process.stdout.write('ready');
const until = Date.now() + 10_000;
for (const [i, file] of files.entries()) {
  while (inode(file) === before[i] && Date.now() < until);
  renameSync(file + '.link', file);
}`;

test('S1: a link in the place of a replaced file changes no other file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-backups-'));
  try {
    const victim = join(folder, 'victim');
    writeFileSync(victim, 'secret', { mode: 0o600 });
    const files = ['a', 'b', 'c', 'd', 'e'].map((name) => join(folder, name));
    for (const file of files) {
      writeFileSync(file, 'old', { mode: 0o644 });
      symlinkSync(victim, `${file}.link`);
    }
    const child = spawn(process.execPath, ['-e', attacker, ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'exit');
    await once(child.stdout, 'data');
    for (const file of files) replaceWithBackup(file, 'new', false);
    expect(await ended).toEqual([0, null]);
    expect(statSync(victim).mode & 0o777).toBe(0o600);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
