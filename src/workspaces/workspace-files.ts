import { resolve } from 'node:path';
import { findWorkspace } from '../config/load/workspace-folders.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { sha256Hex } from '../lib/json/canonical-json.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Log } from '../observability/log/log.ts';
import type { Runners } from '../sandbox/runner.ts';
import type { Documents } from '../stores/documents.ts';
import type { SessionStore } from '../stores/store.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { type ContainerBackends, createContainerBackends } from './backends/container/container-backends.ts';
import { openDatabase } from './backends/database/open-database.ts';
import { openLocal } from './backends/local/open-local.ts';
import { createCodeIndexes } from './codebase/code-indexes.ts';
import type { EmbeddingProvider } from './codebase/embeddings.ts';
import { createPathRules } from './path-guard.ts';
import { createRipgrep, type Ripgrep } from './search/ripgrep.ts';
import type { SessionFolders } from './session-folders/session-folders.ts';
import type { FileAccessParts } from './tools/file-access.ts';
import { createWorkspaces, type SessionWorkspace } from './workspaces.ts';
import { createWriteQuota } from './write-quota.ts';

interface BackendParts {
  readonly documents: Documents;
  readonly ripgrep: Ripgrep | undefined;
  readonly containers: ContainerBackends;
  readonly dataDir: string;
}

/** Uses name and id, so that no id can reach the files of another workspace. Workspace names contain no NUL. */
const treeId = (name: string, id: string | undefined): string => (id === undefined ? name : `${name}\0${id}`);

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
  readonly embeddings?: EmbeddingProvider | undefined;
}

export function createWorkspaceFiles(options: WorkspaceFilesOptions): WorkspaceFiles {
  const { config, store, journal, folders, runners, tmpRoot, dataDir, log, embeddings } = options;
  const { documents } = store;
  const ripgrep = createRipgrep({ sandboxes: runners.sandboxes, tmpRoot });
  const quota = createWriteQuota({ documents, isEnded: async (id) => (await store.get(id)) === undefined });
  const containers = createContainerBackends({ runner: runners.container, tmpRoot, log });
  const indexes = createCodeIndexes({ dataDir, log, embeddings });
  const workspaces = createWorkspaces({
    find: (id) => findWorkspace(config(), id),
    folderFor: folders.folderFor,
    open: (workspace) => openBackend(workspace, { documents, ripgrep, containers, dataDir }),
    quota,
    onChange: indexes.noteChange,
  });
  return {
    workspaces,
    indexes,
    onResolution: ({ correlationId, ...resolution }) =>
      journal.record({ kind: 'file', id: correlationId, ...resolution }),
    forget: quota.forget,
    async close() {
      await indexes.close();
      await workspaces.close();
    },
  };
}

export async function openBackend(
  { id, workspace, folder }: SessionWorkspace,
  { documents, ripgrep, containers, dataDir }: BackendParts,
): Promise<WorkspaceBackend> {
  const { durable, fileBytes } = workspace.files;
  const rules = createPathRules(workspace.files);
  switch (workspace.backend) {
    case 'database':
      return openDatabase(documents, treeId(id, workspace.files.id), { rules, fileBytes });
    case 'container':
      return containers.open(createVolumeName(dataDir, id), { rules, durable, fileBytes });
    case 'local':
      if (folder === undefined) throw new AmbitError('WORKSPACE_UNAVAILABLE');
      return openLocal(folder, { rules, durable, fileBytes, ripgrep, followsLinks: workspace.pattern === undefined });
  }
}

/** Names a volume after the data directory and the workspace. */
export function createVolumeName(dataDir: string, workspace: string): string {
  return `ambit-${sha256Hex(resolve(dataDir)).slice(0, 16)}-${workspace}`;
}
