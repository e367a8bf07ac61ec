import { createDirectory, type Directory } from '../directory/directory.ts';
import type { Journal } from '../journal/journal.ts';
import type { Log } from '../log.ts';
import type { OpenedSession, OpeningBounds } from '../sessions/open-session.ts';
import type { SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SessionStore } from '../stores/store.ts';
import type { Callers } from '../upstreams/caller.ts';
import type { SessionFolders } from '../workspaces/isolation/session-folders.ts';
import { createWorkspaceMeant } from './announced-workspace.ts';
import { openInFolder } from './open-in-folder.ts';
import { createPeople, type People } from './people.ts';
import type { RememberedTransports } from './remembered-transports.ts';
import { createSessionsOfUsers } from './sessions-of-users.ts';
import type { Settings } from './settings.ts';
import type { ResolveOptions } from './stages/resolve-session.ts';

export interface DirectoryParts {
  readonly store: SessionStore;
  readonly sessions: Sessions;
  readonly settings: Settings;
  readonly folders: SessionFolders;
  readonly journal: Journal;
  readonly log: Log;
  readonly onUserRemoved: (userId: string) => Promise<void>;
}

/** Who there is, and how sessions are opened for them. */
export interface OpenDirectory {
  readonly directory: Directory;
  /** The directory for whoever runs Ambit: what is changed here is done everywhere, and written down. */
  readonly people: People;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  resolving(callers: Callers, remembered: RememberedTransports): ResolveOptions;
}

export function openDirectory(parts: DirectoryParts): OpenDirectory {
  const { store, sessions, settings, folders, journal, log, onUserRemoved } = parts;
  const { config } = settings;
  const { documents, watch } = store;
  const directory = createDirectory({ documents, watch, declared: () => config().governance });
  const { keys } = directory;
  // An identity provider has more users than one, or will have.
  const ofSeveralUsers = async () => config().auth.jwt.length > 0 || keys.areOfSeveralUsers();
  const open = (draft: SessionDraft, bounds: OpeningBounds = {}) =>
    openInFolder(sessions, config(), folders, draft, { ...bounds, ofSeveralUsers });
  return {
    directory,
    people: createPeople({ directory, sessions, config, journal, onUserRemoved }),
    open,
    resolving: (callers, remembered) => ({
      sessions,
      callers,
      workspaceMeant: createWorkspaceMeant(config),
      whose: remembered.whose,
      ...createSessionsOfUsers({ sessions, keys, open, log }),
    }),
  };
}
