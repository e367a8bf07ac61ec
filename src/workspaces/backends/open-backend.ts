import { resolve } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import type { Documents } from '../../stores/documents.ts';
import { createPathRules } from '../path-rules.ts';
import type { Ripgrep } from '../search/ripgrep.ts';
import type { SessionWorkspace } from '../workspaces.ts';
import type { WorkspaceBackend } from './backend.ts';
import type { ContainerBackends } from './container/container-backends.ts';
import { openDatabase } from './database/open-database.ts';
import { openLocal } from './local/open-local.ts';

interface BackendParts {
  readonly documents: Documents;
  readonly ripgrep: Ripgrep | undefined;
  readonly containers: ContainerBackends;
  readonly dataDir: string;
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
      return openLocal(folder, { rules, durable, fileBytes, ripgrep });
  }
}

/** Uses name and id, so that no id can reach the files of another workspace. Workspace names contain no NUL. */
const treeId = (name: string, id: string | undefined): string => (id === undefined ? name : `${name}\0${id}`);

/** Names a volume after the data directory and the workspace. */
export function createVolumeName(dataDir: string, workspace: string): string {
  return `ambit-${sha256Hex(resolve(dataDir)).slice(0, 16)}-${workspace}`;
}
