import { AmbitError } from '../errors.ts';
import type { Documents } from '../stores/documents.ts';
import type { WorkspaceBackend } from './backend.ts';
import { openDatabase } from './database/open-database.ts';
import { openLocal } from './local/open-local.ts';
import { pathRules } from './path-rules.ts';
import type { Ripgrep } from './search/ripgrep.ts';
import type { Place } from './workspaces.ts';

export interface BackendParts {
  readonly documents: Documents;
  /** What tells quickly which files a search has to look at. */
  readonly ripgrep: Ripgrep | undefined;
}

/** Opens what keeps the files of a workspace. */
export async function openBackend(place: Place, { documents, ripgrep }: BackendParts): Promise<WorkspaceBackend> {
  const { id, workspace, folder } = place;
  const { durable, fileBytes } = workspace.files;
  const rules = pathRules(workspace.files);
  if (workspace.backend === 'database') return openDatabase(documents, id, { rules, fileBytes });
  if (workspace.backend === 'local' && folder !== undefined) {
    return openLocal(folder, { rules, durable, fileBytes, ripgrep });
  }
  throw new AmbitError('WORKSPACE_UNAVAILABLE');
}
