import { filesSchema } from '../../config/schema/schema-workspace.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { createKeyedMutex } from '../../lib/async/mutex.ts';
import { createRefusalResult } from '../../protocol/compose-message.ts';
import { newSessionOf, type Session, sessionOf } from '../../sessions/session.ts';
import type { ToolDefinition } from '../../sessions/tools/tool.ts';
import { createToolset, type ToolResult } from '../../sessions/tools/toolset.ts';
import { openMemoryStore } from '../../stores/memory/memory-store.ts';
import { createPageCursors } from '../../stores/page-cursors.ts';
import type { WorkspaceBackend } from '../../workspaces/backends/backend.ts';
import { createCodeIndexes } from '../../workspaces/codebase/code-indexes.ts';
import type { EmbeddingProvider } from '../../workspaces/codebase/embeddings.ts';
import { createResolutionRecorder, type FileResolution } from '../../workspaces/resolutions.ts';
import { createSessionFiles } from '../../workspaces/session-files.ts';
import { fileTools, searchTools } from '../../workspaces/tools/create-own-tools.ts';
import type { FileAccess } from '../../workspaces/tools/file-access.ts';
import { createWriteQuota } from '../../workspaces/write-quota.ts';

/** The files of one session, in a server that has its own sessions. */
export interface SessionFolder {
  /** The id of the session, which limits what it writes. */
  readonly sessionId: string;
  /** The files. The server opens and closes the backend. */
  readonly backend: WorkspaceBackend;
}

export interface FileToolsOptions {
  /**
   * Finds the files of the session that the argument `session` names; undefined if the argument was left out. Throw an
   * `AmbitError`, such as SESSION_NOT_FOUND, to refuse.
   */
  findFolder(session: string | undefined): SessionFolder | Promise<SessionFolder>;
  /** Called for each path that a tool was given, with the file it led to and the decision. */
  readonly onResolution?: ((resolution: FileResolution & { readonly sessionId: string }) => void) | undefined;
  readonly limits?:
    | { readonly fileBytes?: number; readonly sessionBytes?: number; readonly sessionEntries?: number }
    | undefined;
  /** Lets `session_codebase_search` find passages by meaning too. */
  readonly embeddings?: EmbeddingProvider | undefined;
}

/** The file tools: `session_read_file`, `session_edit_file` and the others. */
export interface FileTools {
  list(): readonly ToolDefinition[];
  has(name: string): boolean;
  /** Runs a tool and never throws: a refusal is a result that the model reads. */
  call(name: string, args: unknown): Promise<ToolResult>;
  close(): Promise<void>;
}

/** Creates the file tools for a server that has its own sessions and does not use `withSessions()`. */
export function createFileTools(options: FileToolsOptions): FileTools {
  const { findFolder, onResolution, limits: given = {}, embeddings } = options;
  const read = filesSchema.safeParse(given);
  if (!read.success) throw new AmbitError('CONFIG_INVALID', { what: `limits: ${read.error.issues[0]?.message}.` });
  const limits = read.data;
  const store = openMemoryStore();
  const quota = createWriteQuota({ documents: store.documents, isEnded: async () => false });
  const indexes = createCodeIndexes({ dataDir: undefined, log: quietLog, embeddings });
  const runExclusive = createKeyedMutex();
  const backendIds = new WeakMap<WorkspaceBackend, string>();
  let count = 0;

  function identifyBackend(backend: WorkspaceBackend): string {
    const id = backendIds.get(backend) ?? `${count++}\0`;
    backendIds.set(backend, id);
    return id;
  }

  const access: FileAccess = {
    async withFiles(reference, _caller, _tool, work) {
      const { sessionId, backend } = await findFolder(reference);
      const recorder = createResolutionRecorder((resolution) => onResolution?.({ ...resolution, sessionId }));
      const pathPrefix = identifyBackend(backend);
      try {
        return await work(
          createSessionFiles({
            sessionId,
            backend,
            recorder,
            quota,
            limits,
            runExclusive,
            pathPrefix,
            place: { key: pathPrefix, folder: undefined, inBackground: (run) => run(backend) },
            onChange: indexes.noteChange,
          }),
        );
      } finally {
        recorder.finish();
      }
    },
  };
  const cursors = createPageCursors(store.documents);
  const tools = createToolset([...fileTools(access), ...searchTools(access, cursors, indexes)]);
  const caller = { session: nobody, principal: { kind: 'local', userId: nobody.userId } } as const;

  return {
    list: tools.list,
    has: tools.has,
    async call(name, args) {
      try {
        return await tools.run(name, args, caller);
      } catch (error) {
        return createRefusalResult(isAmbitError(error) ? error : new AmbitError('INTERNAL', { cause: error }));
      }
    },
    async close() {
      await indexes.close();
      await quota.close();
      await store.close();
    },
  };
}

/** Failures of an index have no other effect than slower searches. */
const quietLog = { info() {}, warn() {} };

/** Stands for the session of a call, which the server itself finds. */
const nobody: Session = sessionOf({
  ...newSessionOf(
    { userId: 'none', trustLevel: 'sandboxed' },
    { id: 'none', tokenDigests: [], ttlSeconds: 1, lifetimeSeconds: 1 },
  ),
  version: 1,
  createdAt: 0,
  lastActiveAt: 0,
  expiresAt: 0,
  endsAt: 0,
});
