import { realpathSync } from 'node:fs';
import { posix } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { createPathGuard, hideCredentials, type PathRules } from '../../path-guard.ts';
import type { CheckAccess } from '../../saferoot/check-access.ts';
import type { LocatedFile } from '../../saferoot/file-info.ts';
import { openRoot, type SafeRoot, type SafeRootOptions } from '../../saferoot/open-root.ts';
import type { FolderEntry } from '../../saferoot/read.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { splitIntoNames } from '../../saferoot/walk-path.ts';
import type { WrittenFile } from '../../saferoot/write-file.ts';
import { isTemporaryName } from '../../saferoot/write-file.ts';
import type { Ripgrep } from '../../search/ripgrep.ts';
import type {
  FileWriteOptions,
  FoundFile,
  ListedEntry,
  OpenedFile,
  WorkspaceBackend,
  WriteResult,
} from '../backend.ts';
import {
  createErrorExplainer,
  endsLikeFolder,
  fileChangedError,
  notAFileNameError,
  tooLargeError,
} from '../refusals.ts';
import { guardProtectedTargets } from './guard-protected-targets.ts';

export interface LocalOptions {
  readonly rules: PathRules;
  /** Written content is on the disk when the call returns; by default only in the cache of the system. */
  readonly durable?: boolean;
  /** The largest file that may be written; 64 MiB by default. */
  readonly fileBytes?: number;
  /** Removes leftovers of killed writes; true by default. */
  readonly sweep?: boolean;
  /** False to refuse a path that is itself a link, also if it becomes one just now; true by default. */
  readonly followsLinks?: boolean;
  /** Finds candidate files for a search; without it all files are read. */
  readonly ripgrep?: Ripgrep | undefined;
}

export interface LocalBackend extends WorkspaceBackend {
  /** The number of leftovers removed. The sweep runs in the background. */
  readonly swept: Promise<number>;
}

const defaultFileBytes = 64 * 1024 * 1024;
/** The number of attempts at an unconditional write while others change the file. */
const maxAttempts = 8;

/** Opens a folder of the host as a workspace. */
export function openLocal(path: string, options: LocalOptions): LocalBackend {
  const guard = guardProtectedTargets(() => realPath, createPathGuard(options.rules));
  const fileBytes = options.fileBytes ?? defaultFileBytes;
  const sync = options.durable ?? false;
  const checkAccess: CheckAccess = (access, names) =>
    names.some(isTemporaryName)
      ? 'is a name that Ambit uses for files while it writes them'
      : guard.refusal(access, names);
  const root = openWorkspaceRoot(path, { checkAccess, prepare: guard.prepare });
  const realPath = findRealPath(path, root, options.followsLinks ?? true);
  const homes = new Set([posix.normalize(path), realPath].map((home) => home.replace(/(?<!\/)\/+$/, '')));
  const isWithoutLinks = homes.size === 1;
  const { ripgrep } = options;
  const { descriptor } = root;
  const swept = options.sweep === false ? Promise.resolve(0) : root.sweep().catch(() => 0);

  const explain = createErrorExplainer({ readFolderNames, findRelativePath });

  function runChange<T>(asked: string, work: () => Promise<T>): Promise<T> {
    return explain(asked, () => retryWhileScanning(work));
  }

  /** Repeats work that is refused only because a large folder is still being scanned. */
  async function retryWhileScanning<T>(work: () => Promise<T>): Promise<T> {
    for (let attemptsLeft = maxAttempts; ; attemptsLeft--) {
      guard.refresh();
      const finishedBefore = guard.countFinishedScans();
      try {
        return await work();
      } catch (error) {
        const pendingScan = guard.pendingScan();
        const mayBeKnown = pendingScan !== undefined || guard.countFinishedScans() !== finishedBefore;
        if (!mayBeKnown || attemptsLeft === 0 || safeRootCode(error) !== 'NOT_ADMITTED') throw error;
        await pendingScan;
      }
    }
  }

  async function readFolderNames(folder: string): Promise<readonly string[] | undefined> {
    const listing = await root.list(folder, { limit: 1000, without: isTemporaryName }).catch(() => undefined);
    return listing?.entries.filter((entry) => !entry.unreadable && !entry.unrepresentable).map((entry) => entry.name);
  }

  /** Finds the relative path for an absolute one that lies in this folder or was meant from the workspace on. */
  async function findRelativePath(absolute: string): Promise<string | undefined> {
    const plain = posix.normalize(absolute).replace(/(?<=[^/])\/+$/, '');
    if (homes.has(plain)) return '.';
    for (const home of homes) if (plain.startsWith(`${home}/`)) return plain.slice(home.length + 1);
    const meant = plain.replace(/^\/+/, '');
    return meant !== '' && (await exists(root, meant)) ? meant : undefined;
  }

  /** Tells whether a link took the place of the folder: the operator named the folder, not the link. */
  function hasBecomeLink(): boolean {
    try {
      return isWithoutLinks && realpathSync(path) !== realPath;
    } catch {
      return false;
    }
  }

  async function assertFileName(asked: string): Promise<void> {
    if (typeof asked !== 'string' || !endsLikeFolder(asked)) return;
    // A path that leads out or is protected is refused as such.
    await root.stat(asked).catch((error: unknown) => {
      if (safeRootCode(error) !== 'FILE_NOT_FOUND') throw error;
    });
    throw notAFileNameError(asked);
  }

  return {
    kind: 'local',
    swept,
    stat: (asked, how) => explain(asked, async () => toFoundFile(await root.stat(asked, how))),

    open: (asked) =>
      explain(asked, async () => {
        const file = await root.open(asked);
        const opened: OpenedFile = {
          facts: toFoundFile(file.facts),
          read: (offset, length) => explain(asked, () => file.read(offset, length)),
          close: () => file.close(),
        };
        const { path: resolved } = opened.facts;
        // A link in a large folder may lead to the file.
        await guard.prepare([]);
        const otherNames = [
          splitIntoNames(asked),
          ...guard.findOtherNames(resolved.split('/')),
          ...(await findRepositoryNames(root, resolved)),
        ];
        return hideCredentials(opened, asked, guard, otherNames);
      }),

    write: (asked, content, how = {}) =>
      runChange(asked, async () => {
        if (content.byteLength > fileBytes) throw tooLargeError(content.byteLength, fileBytes);
        await assertFileName(asked);
        return writeFile(root, asked, content, { ...how, sync });
      }),

    mayWrite: (asked, { expected } = {}) =>
      runChange(asked, async () => {
        await assertFileName(asked);
        if (expected === undefined || expected === 'absent')
          return root.mayWrite(asked, { absent: expected === 'absent' });
        return root.mayWrite(asked, expected).catch(throwChangedIfGone(asked));
      }),

    makeFolder: (asked) => runChange(asked, () => root.mkdir(asked, { parents: true })),
    remove: (asked, how = {}) =>
      runChange(asked, () => {
        if (!how.recursive) return root.remove(asked);
        return root.removeTree(asked, how.maxEntries === undefined ? {} : { maxEntries: how.maxEntries });
      }),
    move: (from, to, how = {}) =>
      runChange(from, () => root.rename(from, to, { parents: true, overwrite: how.overwrite ?? false })),

    list: (asked, how = {}) =>
      explain(asked, async () => {
        const { path: found, entries, more } = await root.list(asked, { ...how, without: isTemporaryName });
        return { path: found, more, entries: entries.map(toListedEntry) };
      }),

    candidates:
      ripgrep === undefined || descriptor === undefined ? undefined : (query) => ripgrep.candidates(descriptor, query),

    isElsewhere: () => root.isElsewhere() && !hasBecomeLink(),

    async close() {
      root.close();
      await swept;
      await guard.pendingScan();
    },
  };
}

/** Finds the real path of the opened folder. Without links, it must be the one that was asked for. */
function findRealPath(path: string, root: SafeRoot, followsLinks: boolean): string {
  const { descriptor } = root;
  if (followsLinks) return realpathSync(path);
  const { dir, base } = posix.parse(posix.normalize(path).replace(/(?<!\/)\/+$/, ''));
  const expected = posix.join(realpathSync(dir), base);
  const opened = descriptor === undefined ? realpathSync(path) : realpathSync(`/proc/self/fd/${descriptor}`);
  if (opened === expected) return opened;
  void root.close();
  throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'The folder of the workspace is a link.' });
}

function openWorkspaceRoot(path: string, options: SafeRootOptions): SafeRoot {
  try {
    return openRoot(path, options);
  } catch (error) {
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: 'The folder of the workspace cannot be opened.',
      cause: error,
    });
  }
}

/** Files of a repository under any name are known by their names in `.git`. */
async function findRepositoryNames(root: SafeRoot, resolved: string): Promise<readonly string[][]> {
  const { dir, base } = posix.parse(resolved);
  if (!/^(?:config|config\.worktree|credentials)$/i.test(base)) return [];
  const has = (name: string) => exists(root, posix.join(dir, name));
  const [head, common, objects, refs] = await Promise.all(['HEAD', 'commondir', 'objects', 'refs'].map(has));
  return head && (common || (objects && refs)) ? [[...posix.join(dir, '.git').split('/'), base]] : [];
}

const exists = (root: SafeRoot, path: string): Promise<boolean> =>
  root.stat(path).then(
    () => true,
    () => false,
  );

async function writeFile(
  root: SafeRoot,
  asked: string,
  content: Uint8Array,
  { expected, mode, sync }: FileWriteOptions & { readonly sync: boolean },
): Promise<WriteResult> {
  const attributes = { sync, ...(mode === undefined ? {} : { mode }) };
  if (expected === 'absent') return toWriteResult(await root.create(asked, content, { ...attributes, parents: true }));
  if (expected !== undefined) {
    const replaced = root.replace(asked, content, { ...attributes, version: expected.version });
    return toWriteResult(await replaced.catch(throwChangedIfGone(asked)));
  }
  for (let left = maxAttempts; ; left--) {
    try {
      return toWriteResult(await root.replace(asked, content, { ...attributes, parents: true, create: true }));
    } catch (error) {
      if (left === 0 || !['EXISTS', 'CHANGED'].includes(safeRootCode(error) ?? '')) throw error;
    }
  }
}

/** A caller that expects a version has seen the file. */
function throwChangedIfGone(asked: string): (error: unknown) => never {
  return (error) => {
    throw safeRootCode(error) === 'FILE_NOT_FOUND' ? fileChangedError(asked) : error;
  };
}

const safeRootCode = (error: unknown): string | undefined => (error instanceof SafeRootError ? error.code : undefined);

const toFoundFile = ({ path, kind, size, mode, modifiedMs, version }: LocatedFile): FoundFile => ({
  path,
  kind,
  bytes: size,
  mode,
  modifiedMs,
  version,
});

const toWriteResult = (file: WrittenFile): WriteResult => ({
  ...toFoundFile(file),
  created: file.created,
  folders: file.folders,
});

function toListedEntry({ name, kind, size, modifiedMs, unrepresentable, unreadable }: FolderEntry): ListedEntry {
  // Almost all entries are like these, and spreads are slow for thousands of them.
  if (!unrepresentable && !unreadable) {
    return size === undefined || modifiedMs === undefined ? { name, kind } : { name, kind, bytes: size, modifiedMs };
  }
  return { name, kind, ...(unrepresentable ? { unrepresentable } : {}), ...(unreadable ? { hidden: unreadable } : {}) };
}
