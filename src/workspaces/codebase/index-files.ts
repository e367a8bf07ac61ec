import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import type { FilePlace } from '../session-files.ts';

const folderName = 'search';
const maxAgeMs = 30 * 24 * 3600 * 1000;
const maxTotalBytes = 4 * 1024 ** 3;

/** Returns the file of an index. It is named after the folder and its rules. */
export function locateIndex(dataDir: string, { key, folder }: Pick<FilePlace, 'key' | 'folder'>): string {
  return join(dataDir, folderName, `${folderPrefix(folder ?? key)}${sha256Hex(key).slice(0, 16)}.db`);
}

function folderPrefix(folder: string): string {
  return `${sha256Hex(folder).slice(0, 32)}-`;
}

/**
 * Removes a folder with its indexes. They are removed first, in case the process ends meanwhile, and again at the end: a
 * search that is running may make one as long as there are files.
 */
export async function removeWithIndexes(
  dataDir: string,
  folder: string | undefined,
  removeFolder: () => Promise<unknown>,
): Promise<void> {
  removeIndexes(dataDir, folder);
  await removeFolder();
  removeIndexes(dataDir, folder);
}

function removeIndexes(dataDir: string, folder: string | undefined): void {
  if (folder === undefined) return;
  const prefix = folderPrefix(folder);
  for (const name of listNames(join(dataDir, folderName))) {
    if (name.startsWith(prefix)) rmSync(join(dataDir, folderName, name), { force: true });
  }
}

/** Removes indexes that nobody has used for long, and the oldest ones if all together are too large. */
function sweepIndexes(folder: string, used: string): void {
  const files = listNames(folder)
    .filter((name) => name.endsWith('.db') && join(folder, name) !== used)
    .flatMap((name) => statIfPresent(join(folder, name)))
    .sort((one, other) => other.usedAt - one.usedAt);
  let total = 0;
  for (const { path, bytes, usedAt } of files) {
    total += bytes;
    if (total <= maxTotalBytes && Date.now() - usedAt <= maxAgeMs) continue;
    for (const ending of ['', '-wal', '-shm']) rmSync(path + ending, { force: true });
  }
}

/** Makes the folder of the indexes, and marks an index as used. */
export function prepareIndexFile(dataDir: string, place: Pick<FilePlace, 'key' | 'folder'>): void {
  const folder = join(dataDir, folderName);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = locateIndex(dataDir, place);
  const now = new Date();
  if (existsSync(file)) utimesSync(file, now, now);
  sweepIndexes(folder, file);
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function statIfPresent(path: string): { path: string; bytes: number; usedAt: number }[] {
  try {
    const { size, mtimeMs } = statSync(path);
    return [{ path, bytes: size, usedAt: mtimeMs }];
  } catch {
    return [];
  }
}
