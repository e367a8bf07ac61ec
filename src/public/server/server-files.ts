import { isInside, resolveSymlinks } from '../../config/load/resolve-symlinks.ts';
import { filesSchema } from '../../config/schema/schema-workspace.ts';
import { AmbitError } from '../../errors.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { WorkspaceBackend } from '../../workspaces/backends/backend.ts';
import { openDatabase } from '../../workspaces/backends/database/open-database.ts';
import { openLocal } from '../../workspaces/backends/local/open-local.ts';
import { createCodeIndexes } from '../../workspaces/codebase/code-indexes.ts';
import type { EmbeddingProvider } from '../../workspaces/codebase/embeddings.ts';
import { createPathRules, type PathRules } from '../../workspaces/path-rules.ts';
import type { FileAccessParts } from '../../workspaces/tools/file-access.ts';
import { createWorkspaces, type WorkspaceStorage } from '../../workspaces/workspaces.ts';
import { createWriteQuota } from '../../workspaces/write-quota.ts';
import { type FindWorkspaces, type KnownWorkspace, requireWorkspace } from './declared-workspaces.ts';

/** Opens the files of a workspace. The rules say which paths sessions may not read or write. */
export type OpenBackend = (
  workspace: { readonly id: string; readonly path: string | undefined },
  rules: PathRules,
) => WorkspaceBackend | Promise<WorkspaceBackend>;

/** The file tools: where files are stored, and what sessions may do with them. The limits are those of `workspaces.*.files`. */
export interface FileOptions {
  /** `local` (default): the folder of the workspace; `database`: the store; or a function that opens a backend. */
  readonly backend?: 'local' | 'database' | OpenBackend | undefined;
  readonly hide?: readonly string[] | undefined;
  readonly keep?: readonly string[] | undefined;
  readonly open?: readonly string[] | undefined;
  readonly fileBytes?: number | undefined;
  readonly sessionBytes?: number | undefined;
  readonly sessionEntries?: number | undefined;
  readonly durable?: boolean | undefined;
  /** Lets `session_codebase_search` find passages by meaning too. */
  readonly embeddings?: EmbeddingProvider | undefined;
}

/** The files of all sessions of a server, for the file tools. */
export interface LayerFiles extends FileAccessParts {
  /** Called when the session has ended. */
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

interface LayerFilesParts {
  readonly store: SessionStore;
  readonly storeDir: string | undefined;
  readonly findWorkspaces: FindWorkspaces;
  /** False if a workspace that is a link is refused. */
  readonly followsLinks: boolean;
  readonly log: Log;
}

/** Reads the options. Throws if one of them is invalid. */
export function readFileOptions(given: true | FileOptions): {
  readonly storage: WorkspaceStorage;
  readonly open?: OpenBackend;
} {
  const { backend = 'local', embeddings: _, ...limits } = given === true ? {} : given;
  const read = filesSchema.safeParse(limits);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new AmbitError('CONFIG_INVALID', {
      what: `The option files${issue === undefined ? '' : `.${issue.path.join('.')}: ${issue.message}`}.`,
      hint: 'Correct the option.',
    });
  }
  if (typeof backend === 'function') return { storage: { backend: 'local', files: read.data }, open: backend };
  if (backend === 'local' || backend === 'database') return { storage: { backend, files: read.data } };
  throw new AmbitError('CONFIG_INVALID', { what: 'files.backend must be "local", "database" or a function.' });
}

export function createLayerFiles(given: true | FileOptions, parts: LayerFilesParts): LayerFiles {
  const { store, storeDir, findWorkspaces, followsLinks, log } = parts;
  const { storage, open } = readFileOptions(given);
  const { embeddings } = given === true ? {} : given;
  const rules = createPathRules(storage.files);
  const { durable, fileBytes } = storage.files;
  const quota = createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => (await store.get(id)) === undefined,
  });

  async function findKnown(session: Session): Promise<KnownWorkspace | undefined> {
    return requireWorkspace(await findWorkspaces(session), session);
  }

  /** Stores files under the key of the workspace, because several workspaces may have one slug. */
  function storageFor({ id, key }: KnownWorkspace): WorkspaceStorage {
    return key === id ? storage : { ...storage, files: { ...storage.files, id: key } };
  }

  const indexes = createCodeIndexes({ dataDir: undefined, log, embeddings });
  const workspaces = createWorkspaces({
    async find(_id, session) {
      const known = await findKnown(session);
      return known === undefined ? undefined : storageFor(known);
    },
    folderFor: async (session) => (await findKnown(session))?.path,
    async open({ id, folder, workspace }) {
      if (open !== undefined) return open({ id, path: folder }, rules);
      const treeId = workspace.files.id === undefined ? id : `${id}\0${workspace.files.id}`;
      if (storage.backend === 'database') return openDatabase(store.documents, treeId, { rules, fileBytes });
      if (folder === undefined) throw new AmbitError('WORKSPACE_UNAVAILABLE');
      assertOutside(storeDir, folder);
      try {
        return openLocal(folder, { rules, durable, fileBytes, followsLinks });
      } catch (error) {
        const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
        log.warn('workspace cannot be opened', { workspace: id, error: String(cause) });
        throw error;
      }
    },
    quota,
    onChange: indexes.noteChange,
  });
  return {
    workspaces,
    indexes,
    onResolution({ correlationId, sessionId, workspaceId, ...resolution }) {
      log.debug?.('path resolved', {
        session: sessionId,
        correlation: correlationId,
        workspace: workspaceId,
        ...resolution,
      });
    },
    forget: quota.forget,
    async close() {
      await indexes.close();
      await workspaces.close();
    },
  };
}

/** Refuses a workspace that contains the store: an agent could rewrite its own session there. */
function assertOutside(storeDir: string | undefined, folder: string): void {
  if (storeDir === undefined) return;
  const [kept = storeDir, real = folder] = [storeDir, folder].map((path) => resolveSymlinks(path).at(-1));
  if (!isInside(kept, real)) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: 'The folder of the sessions lies in a workspace, where agents could change it.',
    hint: 'The author of this server must set "storeDir" to a folder outside of all workspaces.',
  });
}
