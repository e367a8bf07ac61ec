import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { createKeyedMutex } from '../lib/async/mutex.ts';
import type { Session } from '../sessions/session.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { createBackendPool } from './backends/backend-pool.ts';
import { createResolutionRecorder, type FileResolution } from './resolutions.ts';
import { createSessionFiles, type SessionFiles } from './session-files.ts';
import type { WriteQuota } from './write-quota.ts';

export interface Workspaces {
  /** Runs work on the files of a session. */
  in<T>(
    session: Session,
    tell: (resolution: FileResolution) => void,
    work: (files: SessionFiles) => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

export type WorkspaceConfig = NonNullable<Config['workspaces'][string]>;

export interface SessionWorkspace {
  readonly id: string;
  readonly workspace: WorkspaceConfig;
  /** The folder of a local workspace: the session's own, if it has one. */
  readonly folder: string | undefined;
}

export interface WorkspacesOptions {
  readonly config: () => Config;
  readonly folderFor: (session: Session) => Promise<string | undefined>;
  readonly open: (place: SessionWorkspace) => Promise<WorkspaceBackend>;
  readonly quota: WriteQuota;
}

export function createWorkspaces({ config, folderFor, open, quota }: WorkspacesOptions): Workspaces {
  const pool = createBackendPool();
  const runExclusive = createKeyedMutex();

  return {
    async in(session, tell, work) {
      const { id, workspace } = findWorkspace(config(), session);
      const place = { id, workspace, folder: workspace.backend === 'local' ? await folderFor(session) : undefined };
      const { files } = workspace;
      // A changed configuration needs another backend; running work finishes with the old one.
      const key = `${id}\0${place.folder ?? ''}\0${backendKey(workspace)}`;
      // Workspaces may share a folder or lie in each other: a file has the same key in all of them.
      const before = place.folder === undefined ? `${key}\0` : `${place.folder}/`;
      const resolutions = createResolutionRecorder(tell);
      const { id: sessionId } = session;
      try {
        return await pool.use(
          key,
          () => open(place),
          (opened) =>
            work(
              createSessionFiles({
                sessionId,
                backend: opened,
                recorder: resolutions,
                quota,
                limits: files,
                runExclusive,
                pathPrefix: before,
              }),
            ),
        );
      } finally {
        resolutions.finish();
      }
    },

    async close() {
      await pool.close();
      await quota.close();
    },
  };
}

const backendKeys = new WeakMap<WorkspaceConfig, string>();

/** Returns the part of the configuration that identifies a backend. */
function backendKey(workspace: WorkspaceConfig): string {
  const shape = backendKeys.get(workspace) ?? JSON.stringify([workspace.backend, workspace.files]);
  backendKeys.set(workspace, shape);
  return shape;
}

function findWorkspace(
  { workspaces }: Config,
  { workspaceId: id }: Session,
): Pick<SessionWorkspace, 'id' | 'workspace'> {
  if (id === undefined) throw new AmbitError('WORKSPACE_REQUIRED');
  const workspace = Object.hasOwn(workspaces, id) ? workspaces[id] : undefined;
  if (workspace === undefined) {
    throw new AmbitError('WORKSPACE_NOT_FOUND', {
      what: 'The workspace of the session is not in the configuration any more.',
      hint: 'Use a session in another workspace, or ask the operator.',
    });
  }
  return { id, workspace };
}
