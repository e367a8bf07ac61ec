import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import type { FolderChange } from './changes.ts';
import { createContentCache } from './content-cache.ts';
import type { FolderPaths, FolderRecord } from './folder-record.ts';
import type { RunGit } from './git/git.ts';
import { checkOutOriginals, shadowPaths } from './git/shadow-repository.ts';

/** Files with more lines are not compared line by line, since that would block other sessions. */
const maxLines = 400_000;

/** Larger files are compared by hash only. */
export const maxTextBytes = 4 * 1024 * 1024;

/** Reads the original content of a changed file; undefined when it is not available or too large. */
export type ReadOriginal = (change: FolderChange) => Promise<Buffer | undefined>;

/** Runs `work` with the original content of changed files, from the cache or the repository. */
export async function withOriginals<T>(
  git: RunGit,
  common: string,
  paths: FolderPaths,
  { origin, tree, path: top }: FolderRecord,
  changes: readonly FolderChange[],
  work: (read: ReadOriginal) => Promise<T>,
): Promise<T> {
  const kept = createContentCache(common, paths.kept);
  const folder = join(paths.home, `before-${randomBytes(6).toString('hex')}`);
  // The workspace may be a part of its repository.
  const inTree = (path: string) => join(relative(tree, top), path);
  const wanted = changes.filter(({ before }) => before?.kind === 'file' && before.bytes <= maxTextBytes);
  try {
    await mkdir(folder, { mode: 0o700 });
    const absent: string[] = [];
    for (const { path, before } of wanted) {
      if (before?.kind === 'file' && (await kept.read(before.sha256)) === undefined) absent.push(inTree(path));
    }
    if (origin !== null && absent.length > 0) {
      const shadow = shadowPaths(paths.shadow, origin.commonDir, folder);
      await checkOutOriginals(git, shadow, folder, absent);
    }
    return await work(async ({ path, before }) => {
      if (before?.kind !== 'file' || before.bytes > maxTextBytes) return undefined;
      const content = (await kept.read(before.sha256)) ?? readIfPresent(join(folder, inTree(path)));
      // After a merge, or in a rewritten repository, the content may be another one.
      return content !== undefined && sha256Hex(content) === before.sha256 ? content : undefined;
    });
  } finally {
    await removeFolder(folder);
  }
}

function readIfPresent(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** Decodes a text file; undefined when it is no text or has too many lines. */
export function decodeText(content: Uint8Array | undefined): string | undefined {
  if (content === undefined || content.includes(0) || !isUtf8(content)) return undefined;
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  let lines = 0;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) if (++lines > maxLines) return undefined;
  return bytes.toString('utf8');
}
