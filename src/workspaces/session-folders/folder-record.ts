import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';

export type FolderKind = 'worktree' | 'copy';

/** Where a worktree came from. Kept here, since whatever lies in the folder itself is the session's to change. */
export interface WorktreeOrigin {
  readonly commonDir: string;
  readonly commit: string;
  readonly branch: string;
  /** The worktree's own place in the repository; null until git has made it. */
  readonly adminDir: string | null;
}

/** What is known of a session's folder. It lies beside the folder, where no session can reach it. */
export interface FolderRecord {
  /** One that was never finished is made anew. */
  readonly state: 'making' | 'ready';
  readonly kind: FolderKind;
  readonly sessionId: string;
  readonly sessionName: string | null;
  readonly workspaceId: string;
  readonly workspacePath: string;
  /** All files of the folder, and the part of them that is the session's workspace. */
  readonly tree: string;
  readonly path: string;
  readonly madeAt: string;
  readonly origin: WorktreeOrigin | null;
  /** The workspace had changes when the folder was made which are in no commit, and so not in the folder. */
  readonly uncommitted: boolean;
  /** Its session is gone, and it holds what was not merged. */
  readonly kept: boolean;
}

/** The files that make up one folder of a session, by where they lie. */
export interface FolderPaths {
  readonly home: string;
  /** What its lock is named after. */
  readonly lock: string;
  readonly record: string;
  readonly base: string;
  readonly kept: string;
  readonly shadow: string;
  /** Where git puts the files, and the copy too. Its last name is what git calls the worktree. */
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

/** Those that there are, finished or not. */
export function listWorkspaces(folders: string, sessionId: string): string[] {
  return listFolders(join(folders, sessionId));
}

/** The sessions that have one. */
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
