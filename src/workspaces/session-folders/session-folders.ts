import { existsSync, realpathSync } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Session } from '../../sessions/session.ts';
import { removeWithIndexes } from '../codebase/index-files.ts';
import type { WorkspaceConfig } from '../workspaces.ts';
import type { RenderedDiff } from './folder-diff.ts';
import {
  type FolderKind,
  type FolderName,
  type FolderPaths,
  type FolderRecord,
  folderPathsFor,
  listSessions,
  listWorkspaces,
  readFolderRecord,
  writeFolderRecord,
} from './folder-record.ts';
import type { MergeOptions, MergeResult } from './folder-work.ts';
import type { RunGit } from './git/git.ts';
import { findRepository } from './git/repository.ts';
import type { FolderSubject } from './make-folder.ts';

interface FolderDiff extends RenderedDiff, FolderName {
  /** Names all changes, for a merge of exactly these. */
  readonly changesHash: string;
  /** The number of names that are not UTF-8. They are neither shown nor merged. */
  readonly unnamed: number;
  readonly isolation: FolderKind;
  readonly path: string;
  readonly branch: string | null;
  readonly commit: string | null;
  readonly uncommitted: boolean;
}

/** The own folders of sessions, in workspaces that are configured so. They are in the data directory. */
export interface SessionFolders {
  /** Whether the session has, or gets, a folder of its own in its workspace. */
  hasOwnFolder(session: Pick<Session, 'workspaceId'>): boolean;
  /** The folder that the session works in, made if needed; undefined where it works in none. */
  folderFor(session: Pick<Session, 'id' | 'name' | 'workspaceId'>): Promise<string | undefined>;
  /** The path of that folder without making it. */
  path(session: Pick<Session, 'id' | 'workspaceId'>): string | undefined;
  /** Finds folders by the id of their session, its name, or a prefix of the id that fits only one session. */
  find(reference: string): readonly FolderName[];
  /** Lists all folders that are ready, also those that were kept when their sessions ended. */
  list(): readonly (FolderName & Pick<FolderRecord, 'kind' | 'kept'>)[];
  /** Compares the whole folder, or only a file or folder in it. */
  diff(which: FolderName, only?: string): Promise<FolderDiff>;
  merge(which: FolderName, request: Pick<MergeOptions, 'dryRun' | 'prefer' | 'changesHash'>): Promise<MergeResult>;
  discard(which: FolderName): Promise<void>;
  /** Removes or keeps the folders of an ended session, as configured. Nothing may write in them any more. */
  ended(sessionId: string): Promise<void>;
  /** Cleans up folders whose sessions ended while no process was running. */
  sweep(isLive: (sessionId: string) => Promise<boolean>): Promise<void>;
}

export interface SessionFoldersOptions {
  readonly config: () => Config;
  readonly dataDir: string;
  readonly log: Log;
  readonly git: RunGit;
  /** Writes to the journal. */
  readonly record: (event: FolderEvent, which: FolderName, detail: string | undefined) => void;
}

export type FolderEvent = 'folder-made' | 'folder-kept' | 'folder-merged' | 'folder-removed';

const lockTimeoutMs = 600_000;

/** Most sessions have no folder of their own, so this code is loaded on first use. */
const loadWork = () => import('./folder-work.ts');

export function createSessionFolders(options: SessionFoldersOptions): SessionFolders {
  const { config, dataDir, log, git, record: note } = options;
  const folders = join(realpathSync.native(dataDir), 'folders');
  const common = join(folders, '.content');
  const making = new Map<string, Promise<string>>();
  const known = new Map<string, FolderRecord>();
  const removeIfEmpty = (sessionId: string) => rmdir(join(folders, sessionId)).catch(() => {});
  const workspaceOf = (id: string | undefined) => findWorkspace(config(), id);
  const kindFor = (id: string | undefined) => folderKindOf(workspaceOf(id));
  const pathsFor = ({ sessionId, workspaceId }: FolderName) => folderPathsFor(folders, sessionId, workspaceId);

  /** Locks the folder against all processes. */
  async function withFolderLock<T>(which: FolderName, work: (paths: FolderPaths) => Promise<T>): Promise<T> {
    const paths = pathsFor(which);
    await mkdir(join(folders, which.sessionId), { recursive: true, mode: 0o700 });
    return withLongLock(paths.lock, lockTimeoutMs, () => work(paths));
  }

  function recordOf(which: FolderName): FolderRecord | undefined {
    const key = folderKey(which);
    const record = known.get(key) ?? readFolderRecord(pathsFor(which));
    if (record?.state !== 'ready') return undefined;
    known.set(key, record);
    return record;
  }

  async function makeOnce(subject: FolderSubject): Promise<string> {
    const { makeLoggedFolder, removeSessionFolder } = await loadWork();
    const which = { sessionId: subject.sessionId, workspaceId: subject.workspaceId };
    const record = await withFolderLock(which, async (paths) => {
      const existing = readFolderRecord(paths);
      if (existing?.state === 'ready' && existsSync(existing.path)) return existing;
      // The process that began was killed, or somebody took the files away.
      await removeSessionFolder(git, paths);
      const record = ({ kind, origin }: FolderRecord) =>
        note('folder-made', which, origin === null ? kind : `${kind} ${origin.branch}`);
      return makeLoggedFolder({ git, common, paths, log, record }, subject);
    });
    known.set(folderKey(which), record);
    return record.path;
  }

  async function remove(which: FolderName, paths: FolderPaths): Promise<void> {
    const { removeSessionFolder, sweepContentCache } = await loadWork();
    known.delete(folderKey(which));
    const { state, path } = readFolderRecord(paths) ?? {};
    await removeWithIndexes(dataDir, path, () => removeSessionFolder(git, paths));
    if (state === 'ready') note('folder-removed', which, undefined);
    sweepContentCache(common);
  }

  async function keepOrRemove(which: FolderName): Promise<void> {
    await withFolderLock(which, async (paths) => {
      const { countUnmerged } = await loadWork();
      const record = readFolderRecord(paths);
      const wish = workspaceOf(which.workspaceId)?.onEnd ?? 'auto';
      if (record?.state === 'ready' && wish !== 'remove') {
        // A folder that cannot be read is not removed.
        const files = wish === 'keep' ? undefined : await countUnmerged(git, paths, record).catch(() => undefined);
        if (files !== 0) {
          writeFolderRecord(paths, { ...record, kept: true });
          known.delete(folderKey(which));
          note('folder-kept', which, files === undefined ? undefined : `${files} not merged`);
          log.info('session folder kept', { session: which.sessionId, workspace: which.workspaceId, files });
          return;
        }
      }
      await remove(which, paths);
    });
    await removeIfEmpty(which.sessionId);
  }

  return {
    hasOwnFolder: ({ workspaceId }) => kindFor(workspaceId) !== undefined,

    async folderFor({ id, name, workspaceId }) {
      const kind = kindFor(workspaceId);
      const path = workspaceOf(workspaceId)?.path;
      if (kind === undefined || workspaceId === undefined || path === undefined) return path;
      const which = { sessionId: id, workspaceId };
      const record = recordOf(which);
      if (record !== undefined && existsSync(record.path)) return record.path;
      const key = folderKey(which);
      known.delete(key);
      const subject = { ...which, sessionName: name, workspacePath: path, kind };
      const under = making.get(key) ?? makeOnce(subject).finally(() => making.delete(key));
      making.set(key, under);
      return under;
    },

    path({ id, workspaceId }) {
      const kind = kindFor(workspaceId);
      const shared = workspaceOf(workspaceId)?.path;
      if (kind === undefined || workspaceId === undefined || shared === undefined) return shared;
      const which = { sessionId: id, workspaceId };
      return recordOf(which)?.path ?? expectedPath(pathsFor(which), kind, shared);
    },

    find: (reference) => findFolders(folders, reference),
    list: () => listReadyFolders(folders),

    async diff(which, only) {
      const { diffFolder } = await loadWork();
      const [paths, record] = [pathsFor(which), requireRecord(pathsFor(which))];
      const { kind, path, origin, uncommitted } = record;
      const from = { branch: origin?.branch ?? null, commit: origin?.commit ?? null, uncommitted };
      return { ...which, isolation: kind, path, ...from, ...(await diffFolder(git, common, paths, record, only)) };
    },

    async merge(which, request) {
      const { createPathGuard, mergeFolder, pathRules } = await loadWork();
      const merged = await withFolderLock(which, async (paths) => {
        const record = requireRecord(paths);
        const workspace = workspaceOf(which.workspaceId);
        if (workspace === undefined) throw new AmbitError('WORKSPACE_NOT_FOUND');
        const guard = createPathGuard(pathRules(workspace.files));
        const merge = await mergeFolder({ git, folders, common, paths, record }, { guard, ...request });
        const done = merge.files.filter(({ outcome }) => outcome === 'taken' || outcome === 'merged').length;
        if (merge.fits && !merge.dryRun) note('folder-merged', which, `${done} of ${merge.files.length}`);
        return merge;
      });
      // A folder that was kept only for its unmerged changes is no longer needed.
      if (merged.fits && !merged.dryRun && readFolderRecord(pathsFor(which))?.kept) await keepOrRemove(which);
      return merged;
    },

    async discard(which) {
      requireRecord(pathsFor(which));
      await withFolderLock(which, (paths) => remove(which, paths));
      await removeIfEmpty(which.sessionId);
    },

    async ended(sessionId) {
      await Promise.allSettled([...making].flatMap(([key, made]) => (key.startsWith(`${sessionId}/`) ? [made] : [])));
      for (const workspaceId of listWorkspaces(folders, sessionId)) await keepOrRemove({ sessionId, workspaceId });
      await removeIfEmpty(sessionId);
    },

    async sweep(isLive) {
      for (const sessionId of listSessions(folders)) {
        const kept = listWorkspaces(folders, sessionId).map((workspaceId) => ({ sessionId, workspaceId }));
        const open = kept.filter((which) => readFolderRecord(pathsFor(which))?.kept !== true);
        if (kept.length > 0 && open.length === 0) continue;
        if (await isLive(sessionId)) continue;
        for (const which of open) await keepOrRemove(which);
        await removeIfEmpty(sessionId);
      }
    },
  };
}

function folderKey({ sessionId, workspaceId }: FolderName): string {
  return `${sessionId}/${workspaceId}`;
}

/** The path of a folder that is not made yet; undefined where it cannot be made. */
function expectedPath(paths: FolderPaths, kind: FolderKind, workspace: string): string | undefined {
  if (kind === 'copy') return paths.tree;
  try {
    const repository = findRepository(workspace);
    return 'refused' in repository ? undefined : join(paths.tree, repository.prefix);
  } catch {
    return undefined;
  }
}

/** Undefined where sessions work in the folder of the workspace itself. */
function folderKindOf(workspace: WorkspaceConfig | undefined): FolderKind | undefined {
  if (workspace === undefined || workspace.backend !== 'local' || workspace.isolation === 'shared') return undefined;
  return workspace.isolation;
}

function requireRecord(paths: FolderPaths): FolderRecord {
  const record = readFolderRecord(paths);
  if (record?.state === 'ready') return record;
  throw new AmbitError('WORKSPACE_REQUIRED', {
    what: 'The session has no folder of its own in that workspace.',
    hint: 'A session gets one when it is first used in a workspace with isolation "worktree" or "copy".',
  });
}

function listFolderNames(folders: string): FolderName[] {
  return listSessions(folders).flatMap((sessionId) =>
    listWorkspaces(folders, sessionId).map((workspaceId) => ({ sessionId, workspaceId })),
  );
}

function listReadyFolders(folders: string): ReturnType<SessionFolders['list']> {
  return listFolderNames(folders).flatMap((which) => {
    const record = readFolderRecord(folderPathsFor(folders, which.sessionId, which.workspaceId));
    return record?.state === 'ready' ? [{ ...which, kind: record.kind, kept: record.kept }] : [];
  });
}

function findFolders(folders: string, reference: string): readonly FolderName[] {
  const all = listFolderNames(folders);
  const exact = all.filter(({ sessionId }) => sessionId === reference);
  if (exact.length > 0) return exact;
  const nameOf = ({ sessionId, workspaceId }: FolderName) =>
    readFolderRecord(folderPathsFor(folders, sessionId, workspaceId))?.sessionName;
  const named = all.filter((each) => nameOf(each) === reference);
  const found = named.length > 0 ? named : all.filter(({ sessionId }) => sessionId.startsWith(reference));
  return new Set(found.map(({ sessionId }) => sessionId)).size === 1 ? found : [];
}
