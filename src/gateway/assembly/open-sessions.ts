import type { Governance } from '../../context/for-models/governance.ts';
import { govern, type Policies } from '../../context/for-models/governing.ts';
import { createDirectory, type Directory } from '../../identity/directory.ts';
import { createLifecycle, type Lifecycle } from '../../sessions/events/lifecycle.ts';
import { openWebhook } from '../../sessions/events/open-webhook.ts';
import type { OpenedSession, OpeningBounds } from '../../sessions/open-session.ts';
import { quotasOf } from '../../sessions/quotas.ts';
import type { SessionDraft } from '../../sessions/session.ts';
import { createSessions, type Sessions } from '../../sessions/sessions.ts';
import { openInFolder } from '../../workspaces/open-in-folder.ts';
import type { RunGit } from '../../workspaces/session-folders/git/git.ts';
import { createSessionFolders, type SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { createPeople, type People } from '../operator/people.ts';
import type { ClosingStack } from './closing-stack.ts';
import { createEndings, type Endings } from './endings.ts';
import type { Storage } from './open-storage.ts';

/** Sessions, who they are for, and what belongs to them. */
export interface SessionParts {
  readonly sessions: Sessions;
  /** The clearing up after sessions that is still under way. */
  readonly endings: Endings;
  readonly folders: SessionFolders;
  readonly directory: Directory;
  /** The directory for whoever runs Ambit: what is changed here is done everywhere, and written down. */
  readonly people: People;
  readonly lifecycle: Lifecycle;
  readonly governance: Governance;
  readonly policies: Policies;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  /** Hears of each user who was removed; whoever removed it waits for the listener. */
  onUserRemoved(listener: (userId: string) => Promise<void>): void;
  /** Starts to deliver the last events to the webhook; closing waits for it. */
  deliverLastEvents(): void;
}

export interface SessionOptions {
  readonly storage: Storage;
  /** Makes the folders of sessions. */
  readonly git: RunGit;
}

export async function openSessions({ storage, git }: SessionOptions, closing: ClosingStack): Promise<SessionParts> {
  const { settings, config: first, places, log, journal, keys: signing, store } = storage;
  const { config } = settings;
  const { dataDir } = places;
  const lifecycle = createLifecycle(store);
  closing.push(lifecycle.close);
  const webhook = await openWebhook(first.events.webhook, { dataDir, lifecycle, log });
  let told: Promise<void> | undefined;
  const deliverLast = () => {
    // What was done last reaches the feed a moment later.
    if (webhook !== undefined) told ??= storage.feedFlushed().then(() => webhook.close());
    return told;
  };
  closing.push(deliverLast);
  const endings = createEndings();
  closing.push(endings.over);
  const sessions = createSessions({ store, bounds: first.sessions, quotas: () => quotasOf(config()) });
  const folders = createSessionFolders({
    config,
    dataDir,
    log,
    git,
    record: (event, which, detail) => journal.record({ kind: 'session', event, ...which, detail }),
  });
  const { documents, watch } = store;
  const directory = createDirectory({ documents, watch, declared: () => config().governance });
  closing.push(directory.close);
  const { keys } = directory;
  // An identity provider has more users than one, or will have.
  const ofSeveralUsers = async () => config().auth.jwt.length > 0 || keys.areOfSeveralUsers();
  const removal: ((userId: string) => Promise<void>)[] = [];
  const onUserRemoved = async (userId: string) => void (await Promise.all(removal.map((hear) => hear(userId))));
  const { governance, policies } = govern({
    store,
    settings: () => config().governance,
    publicUrl: config().listen.publicUrl,
    directory,
    keys: signing,
    journal,
    log,
  });
  closing.push(governance.close);
  return {
    sessions,
    endings,
    folders,
    directory,
    people: createPeople({ directory, sessions, config, journal, onUserRemoved }),
    lifecycle,
    governance,
    policies,
    open: (draft, bounds = {}) => openInFolder(sessions, config(), folders, draft, { ...bounds, ofSeveralUsers }),
    onUserRemoved: (listener) => void removal.push(listener),
    deliverLastEvents: () => void deliverLast()?.catch(() => {}),
  };
}
