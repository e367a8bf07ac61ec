import type { ConfiguredWorkspace } from '../config/load/workspace-folders.ts';
import { AmbitError } from '../errors.ts';
import { createKeyedMutex } from '../lib/async/mutex.ts';
import type { Session } from '../sessions/session.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { createBackendPool } from './backends/backend-pool.ts';
import { createResolutionRecorder, type FileResolution } from './resolutions.ts';
import { createSessionFiles, type FilePlace, type InBackground, type SessionFiles } from './session-files.ts';
import type { WriteQuota } from './write-quota.ts';

export interface Workspaces {
  /** Runs work on the files of a session. */
  in<T>(
    session: Session,
    onResolution: (resolution: FileResolution) => void,
    work: (files: SessionFiles) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

export type WorkspaceConfig = ConfiguredWorkspace;

/** The part of a workspace that decides how its files are stored and limited. */
export type WorkspaceStorage = Pick<WorkspaceConfig, 'backend' | 'files' | 'pattern'>;

export interface SessionWorkspace {
  readonly id: string;
  readonly workspace: WorkspaceStorage;
  /** The folder of a local workspace: the session's own, if it has one. */
  readonly folder: string | undefined;
}

export interface WorkspacesOptions {
  /** Finds the storage of a workspace; undefined if there is no such workspace for the session. */
  readonly find: (id: string, session: Session) => WorkspaceStorage | undefined | Promise<WorkspaceStorage | undefined>;
  readonly folderFor: (session: Session) => Promise<string | undefined>;
  readonly open: (workspace: SessionWorkspace) => Promise<WorkspaceBackend>;
  readonly quota: WriteQuota;
  /** Called for each file or folder that a session has changed. */
  readonly onChange: (place: FilePlace, path: string) => void;
}

export function createWorkspaces({ find, folderFor, open, quota, onChange }: WorkspacesOptions): Workspaces {
  const pool = createBackendPool();
  const runExclusive = createKeyedMutex();

  return {
    async in(session, onResolution, work) {
      const { workspaceId: id } = session;
      if (id === undefined) throw new AmbitError('WORKSPACE_REQUIRED');
      const workspace = await find(id, session);
      if (workspace === undefined) throw workspaceGoneError();
      const folder = workspace.backend === 'local' ? await folderFor(session) : undefined;
      // A changed configuration needs another backend; running work finishes with the old one.
      const key = `${id}\0${folder ?? ''}\0${backendKey(workspace)}`;
      // Workspaces may share a folder or lie in each other: a file has the same key in all of them.
      const pathPrefix = folder === undefined ? `${key}\0` : `${folder}/`;
      const recorder = createResolutionRecorder(onResolution);
      const inBackground: InBackground = (run) => pool.use(key, () => open({ id, workspace, folder }), run);
      const place: FilePlace = { key, folder, inBackground };
      const common = { sessionId: session.id, quota, limits: workspace.files, runExclusive, pathPrefix };
      try {
        return await inBackground((backend) =>
          work(createSessionFiles({ ...common, recorder, place, onChange, backend })),
        );
      } finally {
        recorder.finish();
      }
    },

    async close() {
      await pool.close();
      await quota.close();
    },
  };
}

/** The error for a session whose workspace is no longer configured, or whose folder is gone. */
export function workspaceGoneError(): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: 'The workspace of the session does not exist.',
    hint: 'Use a session in another workspace, or ask the operator.',
  });
}

const backendKeys = new WeakMap<WorkspaceStorage, string>();

/** Returns the part of the configuration that identifies a backend. */
function backendKey(workspace: WorkspaceStorage): string {
  const shape = backendKeys.get(workspace) ?? JSON.stringify([workspace.backend, workspace.files]);
  backendKeys.set(workspace, shape);
  return shape;
}
