import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';

export type FolderKind = 'worktree' | 'copy';

/** The origin of a worktree. It is kept in the record, since the session can change everything in its folder. */
export interface WorktreeOrigin {
  readonly commonDir: string;
  readonly commit: string;
  readonly branch: string;
  /** The worktree's administrative folder in the repository; null until git has made it. */
  readonly adminDir: string | null;
}

/** The record of a session's folder. It is stored beside the folder, where no session can reach it. */
export interface FolderRecord {
  /** A folder that was never finished is made again. */
  readonly state: 'making' | 'ready';
  readonly kind: FolderKind;
  readonly sessionId: string;
  readonly sessionName: string | null;
  readonly workspaceId: string;
  readonly workspacePath: string;
  /** The folder with all files; `path` is the part of it that is the session's workspace. */
  readonly tree: string;
  readonly path: string;
  readonly madeAt: string;
  readonly origin: WorktreeOrigin | null;
  /** The workspace had uncommitted changes when the folder was made, which are not in the folder. */
  readonly uncommitted: boolean;
  /** The session is gone, and the folder has unmerged changes. */
  readonly kept: boolean;
}

/** Names one folder: a session may work in several workspaces. */
export type FolderName = Pick<FolderRecord, 'sessionId' | 'workspaceId'>;

/** The paths of the files that make up one folder of a session. */
export interface FolderPaths {
  readonly home: string;
  readonly lock: string;
  readonly record: string;
  readonly base: string;
  readonly kept: string;
  readonly shadow: string;
  /** The folder with the files of the worktree or copy. Git names the worktree after its last part. */
  readonly tree: string;
}

export function folderPathsFor(folders: string, sessionId: string, workspaceId: string): FolderPaths {
  const home = join(folders, sessionId, workspaceId);
  return {
    home,
    lock: join(folders, `.${sessionId}.${workspaceId}`),
    record: join(home, 'folder.json'),
    base: join(home, 'base.json'),
    kept: join(home, 'kept'),
    shadow: join(home, 'git'),
    tree: join(home, `${workspaceId}-${sessionId.slice(0, 8)}`),
  };
}

export function readFolderRecord(paths: FolderPaths): FolderRecord | undefined {
  try {
    return JSON.parse(readFileSync(paths.record, 'utf8')) as FolderRecord;
  } catch {
    return undefined;
  }
}

export function writeFolderRecord(paths: FolderPaths, record: FolderRecord): void {
  writeAtomically(paths.record, JSON.stringify(record));
}

/** The workspaces in which a session has a folder, finished or not. */
export function listWorkspaces(folders: string, sessionId: string): string[] {
  return listFolders(join(folders, sessionId));
}

export function listSessions(folders: string): string[] {
  return listFolders(folders).filter((name) => !name.startsWith('.'));
}

function listFolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  } catch {
    return [];
  }
}
