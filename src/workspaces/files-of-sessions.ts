import type { Config } from '../config/schema/schema.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Log } from '../observability/log/log.ts';
import type { Runners } from '../sandbox/runner.ts';
import type { SessionStore } from '../stores/store.ts';
import { createContainerBackends } from './backends/container/container-backends.ts';
import { openBackend } from './backends/open-backend.ts';
import { createRipgrep } from './search/ripgrep.ts';
import type { SessionFolders } from './session-folders/session-folders.ts';
import type { FilesForTools } from './tools/file-access.ts';
import { createWorkspaces } from './workspaces.ts';
import { createWrittenSoFar } from './written-so-far.ts';

/** The files of sessions, for the tools; each path that was asked for is in the journal. */
export interface FilesOfSessions extends FilesForTools {
  /** The session is gone. */
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

export interface FilesOfSessionsOptions {
  readonly config: () => Config;
  readonly store: SessionStore;
  readonly journal: Journal;
  readonly folders: Pick<SessionFolders, 'folderFor'>;
  readonly runners: Pick<Runners, 'sandboxes' | 'container'>;
  /** Where the warden finds the folders of processes. */
  readonly tmpRoot: string;
  readonly dataDir: string;
  readonly log: Log;
}

export function createFilesOfSessions(options: FilesOfSessionsOptions): FilesOfSessions {
  const { config, store, journal, folders, runners, tmpRoot, dataDir, log } = options;
  const { documents } = store;
  const ripgrep = createRipgrep({ sandboxes: runners.sandboxes, tmpRoot });
  const written = createWrittenSoFar({
    documents,
    isGone: async (id) => (await store.get(id)) === undefined,
  });
  const containers = createContainerBackends({ runner: runners.container, tmpRoot, log });
  const workspaces = createWorkspaces({
    config,
    folderFor: folders.folderFor,
    open: (place) => openBackend(place, { documents, ripgrep, containers, dataDir }),
    written,
  });
  return {
    workspaces,
    tell: ({ correlationId, ...resolution }) => journal.record({ kind: 'file', id: correlationId, ...resolution }),
    forget: written.forget,
    close: workspaces.close,
  };
}
