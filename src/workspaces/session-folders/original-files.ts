import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { constants, linkSync, lstatSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { listNames } from '../../lib/fs/if-present.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import type { FolderChange } from './changes.ts';
import type { FolderPaths, FolderRecord } from './folder-record.ts';
import { GitError, type GitPaths, type RunGit } from './git/git.ts';
import type { Repository } from './git/repository.ts';

/**
 * Creates a git folder that uses only the objects of the repository: no configuration, hooks or attributes. Files are
 * checked out and compared through it, so that no filter or program of the repository is run.
 */
export async function createShadow(folder: string, commit: string): Promise<void> {
  await mkdir(join(folder, 'refs'), { recursive: true, mode: 0o700 });
  await mkdir(join(folder, 'objects'), { recursive: true });
  const format =
    commit.length > 40 ? '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n' : '';
  await writeFile(join(folder, 'config'), `${format}[core]\n\tbare = false\n`);
  await writeFile(join(folder, 'HEAD'), `${commit}\n`);
}

export function shadowPaths(folder: string, commonDir: string, workTree: string): GitPaths {
  return { gitDir: folder, workTree, objects: join(commonDir, 'objects') };
}

/** Checks all files of a commit out into an empty folder. */
export async function checkOutCommit(git: RunGit, shadow: GitPaths, tree: string, commit: string): Promise<void> {
  await git({ ...shadow, workTree: tree }, ['read-tree', '--reset', '-u', commit], { writes: [shadow.gitDir, tree] });
}

/** A pipe that replaces a `.gitignore` while git runs makes git wait without end. */
const gitTimeoutMs = 30_000;

/**
 * Lists the untracked files that git ignores; folders end in "/". Refused where git fails, since ignored files must not
 * be taken for work. The objects of the repository are not needed.
 */
export async function listIgnoredFiles(git: RunGit, shadow: GitPaths, timeoutMs = gitTimeoutMs): Promise<string[]> {
  const { objects: _, ...paths } = shadow;
  const args = ['ls-files', '--others', '--ignored', '--exclude-standard', '--directory', '-z'];
  try {
    return splitNames(await git(paths, args, { timeoutMs }));
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: "Git cannot determine which files of the session's folder are ignored.",
      hint: 'Try again when nothing is running in the session. The operator can also copy files from the folder by hand.',
      cause: error,
    });
  }
}

/** Whether the files of the workspace differ from the commit of its checkout; undefined where git fails. */
export async function hasUncommitted(
  git: RunGit,
  shadow: GitPaths,
  checkout: Repository,
): Promise<boolean | undefined> {
  // A copy of the index tells which files are unchanged, and may be refreshed.
  const index = join(shadow.gitDir, 'index-of-checkout');
  try {
    await copyIndex(checkout.gitDir, index);
    const args = ['status', '--porcelain', '-z', '--untracked-files=normal', '--ignore-submodules=all'];
    const { top, prefix } = checkout;
    const which = prefix === '' ? [] : ['--', prefix];
    const paths = { ...shadow, workTree: top, index };
    return (
      (await git(paths, [...args, ...which], { parts: visibleParts(checkout), timeoutMs: gitTimeoutMs })).length > 0
    );
  } catch {
    return undefined;
  } finally {
    await rm(index, { force: true });
  }
}

/** The workspace, and the ignore and attribute files above it. */
function visibleParts({ top, prefix }: Repository): string[] | undefined {
  if (prefix === '') return undefined;
  const names = prefix.split('/');
  const above = names.map((_, depth) => join(top, ...names.slice(0, depth)));
  const rules = above.flatMap((folder) => [join(folder, '.gitignore'), join(folder, '.gitattributes')]);
  return [join(top, prefix), ...rules.filter((path) => lstatSync(path, { throwIfNoEntry: false })?.isFile())];
}

/** Copies the index by a handle: a pipe does not block, and a link is not followed. */
async function copyIndex(gitDir: string, target: string): Promise<void> {
  await rm(target, { force: true });
  await withOpen(openRealFolder(gitDir), async (root) => {
    const file = await root.open('index');
    await file.copyTo(target).finally(() => file.close());
    // Git compares the age of the index with those of files, and reads files that may have changed at the same moment.
    const writtenAt = Math.floor(file.facts.modifiedMs / 1000);
    await utimes(target, writtenAt, writtenAt);
  });
}

/** Checks out the original files, as far as the repository still has them. */
async function checkOutOriginals(
  git: RunGit,
  shadow: GitPaths,
  folder: string,
  paths: readonly string[],
): Promise<void> {
  // In an empty folder, the attributes of the commit decide about line ends, not those of the session.
  const input = paths.map((path) => `${path}\0`).join('');
  const args = ['checkout-index', '--force', '-z', '--stdin'];
  try {
    await git({ ...shadow, workTree: folder }, args, { input, writes: [folder] });
  } catch (error) {
    // Changes are also shown when the repository is gone.
    if (!(error instanceof GitError)) throw error;
  }
}

function splitNames(listed: Buffer): string[] {
  return listed
    .toString('utf8')
    .split('\0')
    .filter((name) => name !== '');
}

/** Opens a folder by its real path. Refused when a session has replaced a part of the path with a link meanwhile. */
export function openRealFolder(path: string): SafeRoot {
  const root = openRoot(path);
  const { descriptor } = root;
  const found = descriptor === undefined ? realpathSync.native(path) : readlinkSync(`/proc/self/fd/${descriptor}`);
  if (found === path) return root;
  root.close();
  throw new SafeRootError('CHANGED', {});
}

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

/**
 * The content of base files, by hash. Sessions of one workspace start from much the same files, so each content is
 * stored once: every folder has a hard link to what it needs, and content with a single link is unused.
 */
export interface ContentCache {
  /** Adds the content of a file that nobody else can change. */
  add(sha256: string, file: string): Promise<void>;
  read(sha256: string): Promise<Buffer | undefined>;
}

export function createContentCache(common: string, own: string): ContentCache {
  function linkOwn(sha256: string): boolean {
    try {
      linkSync(join(common, sha256), join(own, sha256));
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST') return true;
      if (code === 'ENOENT') return false;
      throw error;
    }
  }

  return {
    async add(sha256, file) {
      if (linkOwn(sha256)) return;
      await Promise.all([
        mkdir(common, { recursive: true, mode: 0o700 }),
        mkdir(own, { recursive: true, mode: 0o700 }),
      ]);
      if (linkOwn(sha256)) return;
      const fresh = join(own, `${sha256}.${randomBytes(4).toString('hex')}`);
      await copyFile(file, fresh, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      try {
        linkSync(fresh, join(common, sha256));
      } catch (error) {
        // Another process added it first; this folder uses its own copy.
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      renameSync(fresh, join(own, sha256));
    },

    async read(sha256) {
      try {
        return await readFile(join(own, sha256));
      } catch {
        return undefined;
      }
    },
  };
}

/** Removes content that no folder links to. */
export function sweepContentCache(common: string): void {
  for (const name of listNames(common)) {
    const path = join(common, name);
    if (lstatSync(path, { throwIfNoEntry: false })?.nlink === 1) rmSync(path, { force: true });
  }
}
