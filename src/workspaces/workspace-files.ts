import type { Config } from '../config/schema/schema.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Log } from '../observability/log/log.ts';
import type { Runners } from '../sandbox/runner.ts';
import type { SessionStore } from '../stores/store.ts';
import { createContainerBackends } from './backends/container/container-backends.ts';
import { openBackend } from './backends/open-backend.ts';
import { createRipgrep } from './search/ripgrep.ts';
import type { SessionFolders } from './session-folders/session-folders.ts';
import type { FileAccessParts } from './tools/file-access.ts';
import { createWorkspaces } from './workspaces.ts';
import { createWriteQuota } from './write-quota.ts';

/** The files of all sessions, for the tools. Each requested path is recorded in the journal. */
export interface WorkspaceFiles extends FileAccessParts {
  /** Called when the session has ended. */
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

export interface WorkspaceFilesOptions {
  readonly config: () => Config;
  readonly store: SessionStore;
  readonly journal: Journal;
  readonly folders: Pick<SessionFolders, 'folderFor'>;
  readonly runners: Pick<Runners, 'sandboxes' | 'container'>;
  /** The folder where the reaper finds the folders of processes. */
  readonly tmpRoot: string;
  readonly dataDir: string;
  readonly log: Log;
}

export function createWorkspaceFiles(options: WorkspaceFilesOptions): WorkspaceFiles {
  const { config, store, journal, folders, runners, tmpRoot, dataDir, log } = options;
  const { documents } = store;
  const ripgrep = createRipgrep({ sandboxes: runners.sandboxes, tmpRoot });
  const quota = createWriteQuota({ documents, isEnded: async (id) => (await store.get(id)) === undefined });
  const containers = createContainerBackends({ runner: runners.container, tmpRoot, log });
  const workspaces = createWorkspaces({
    config,
    folderFor: folders.folderFor,
    open: (workspace) => openBackend(workspace, { documents, ripgrep, containers, dataDir }),
    quota,
  });
  return {
    workspaces,
    onResolution: ({ correlationId, ...resolution }) =>
      journal.record({ kind: 'file', id: correlationId, ...resolution }),
    forget: quota.forget,
    close: workspaces.close,
  };
}
