import { AmbitError } from '../errors.ts';
import type { WorkspaceBackend } from './backend.ts';
import { openLocal } from './local/open-local.ts';
import { pathRules } from './path-rules.ts';
import type { Place } from './workspaces.ts';

/** Opens what keeps the files of a workspace. */
export async function openBackend({ workspace, folder }: Place): Promise<WorkspaceBackend> {
  const { durable, fileBytes } = workspace.files;
  const rules = pathRules(workspace.files);
  if (workspace.backend === 'local' && folder !== undefined) return openLocal(folder, { rules, durable, fileBytes });
  throw new AmbitError('WORKSPACE_UNAVAILABLE');
}
