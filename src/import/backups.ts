import { existsSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { writeAtomically } from '../write-atomically.ts';

const ending = /^\.(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}-\d{3}Z)\.backup$/;

const stamp = (): string => new Date().toISOString().replace(/[:.]/g, '-');

/** Links are followed, so that a configuration kept elsewhere stays there. */
function realFile(file: string): string {
  return existsSync(file) ? realpathSync(file) : file;
}

/** Writes a configuration anew. What it was before lies beside it afterwards, readable by its owner only. */
export function replaceWithBackup(file: string, text: string): string | undefined {
  const real = realFile(file);
  if (!existsSync(real)) {
    writeAtomically(real, text, 0o600);
    return undefined;
  }
  const backup = `${real}.${stamp()}.backup`;
  writeFileSync(backup, readFileSync(real), { mode: 0o600, flag: 'wx' });
  writeAtomically(real, text, statSync(real).mode & 0o777);
  return backup;
}

/** The youngest backup of a configuration. */
export function latestBackup(file: string): string | undefined {
  const real = realFile(file);
  const name = basename(real);
  if (!existsSync(dirname(real))) return undefined;
  const backups = readdirSync(dirname(real))
    .filter((entry) => entry.startsWith(name) && ending.test(entry.slice(name.length)))
    .sort();
  const youngest = backups.at(-1);
  return youngest === undefined ? undefined : join(dirname(real), youngest);
}

/** Puts a backup back in its place; what it replaces is kept beside it as `….undone`. */
export function restoreBackup(file: string, backup: string): string {
  const real = realFile(file);
  const undone = `${real}.${stamp()}.undone`;
  writeFileSync(undone, readFileSync(real), { mode: 0o600, flag: 'wx' });
  writeAtomically(real, readFileSync(backup, 'utf8'), statSync(real).mode & 0o777);
  rmSync(backup);
  return undone;
}
