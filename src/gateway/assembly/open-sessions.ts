import { join } from 'node:path';
import { findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { type Governance, openGovernance, type PolicyAdmin } from '../../context/for-models/governance.ts';
import { createDirectory, type Directory } from '../../identity/directory.ts';
import { createLifecycle, type Lifecycle } from '../../sessions/events/lifecycle.ts';
import type { Webhook, WebhookOptions } from '../../sessions/events/webhook.ts';
import { type OpenedSession, type OpeningBounds, openSession } from '../../sessions/open-session.ts';
import { quotasFromConfig } from '../../sessions/quotas.ts';
import { restrictSession } from '../../sessions/restrict.ts';
import { createEndedSessions, type EndedSessions } from '../../sessions/search/ended-sessions.ts';
import type { SessionDraft } from '../../sessions/session.ts';
import { createSessions, type Sessions } from '../../sessions/sessions.ts';
import { openTeam, type Team } from '../../sessions/teams/open-team.ts';
import type { RunGit } from '../../workspaces/session-folders/git/git.ts';
import { createSessionFolders, type SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { createDirectoryAdmin, type DirectoryAdmin } from '../directory-admin.ts';
import type { Operator } from '../gateway.ts';
import { createSessionInspector, type SessionInspector } from '../inspect/session-inspector.ts';
import { createSessionCleanups, type SessionCleanups } from './clean-up-ended-sessions.ts';
import type { ClosingStack } from './closing-stack.ts';
import type { Storage } from './open-storage.ts';

/** The longest time until the feed of a store reports a change. */
const feedDelayMs = 1000;

/** The members of an operator that are the same with and without a gateway. */
type CommonOperator = Omit<
  Operator,
  'sandbox' | 'openAuth' | 'openAccess' | 'openServers' | 'running' | 'config' | 'listServers'
>;

/** The sessions and what belongs to them. */
export interface SessionParts {
  readonly sessions: Sessions;
  /** Messages, results and shared state of sessions, and the search for them. */
  readonly team: Team;
  /** The cleanups that are still running. */
  readonly cleanups: SessionCleanups;
  readonly folders: SessionFolders;
  readonly directory: Directory;
  /** Users, teams and keys for the operator. Changes apply to all processes and are recorded. */
  readonly people: DirectoryAdmin;
  readonly lifecycle: Lifecycle;
  readonly endedSessions: EndedSessions;
  readonly governance: Governance;
  readonly policies: PolicyAdmin;
  readonly inspector: SessionInspector;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  /** Calls the listener for each removed user. The removal waits for it. */
  onUserRemoved(listener: (userId: string) => Promise<void>): void;
  /** Starts to deliver the last events to the webhook; closing waits for it. */
  deliverLastEvents(): void;
}

/** Opens sessions. `git` creates their folders. */
export async function openSessions(storage: Storage, git: RunGit, closing: ClosingStack): Promise<SessionParts> {
  const { settings, config: first, paths, log, journal, keys: signing, store } = storage;
  const { config } = settings;
  const { dataDir } = paths;
  const lifecycle = createLifecycle(store);
  closing.push(lifecycle.close);
  const endedSessions = createEndedSessions({ store, lifecycle });
  let lastEndedAt = Number.NEGATIVE_INFINITY;
  closing.push(async () => {
    // The feed reports an end a moment later.
    if (performance.now() - lastEndedAt < feedDelayMs) await storage.feedFlushed();
    await endedSessions.close();
  });
  const webhook = await openWebhook(first.events.webhook, { dataDir, lifecycle, log });
  let delivering: Promise<void> | undefined;
  const deliverLast = () => {
    // The last changes reach the feed a moment later.
    if (webhook !== undefined) delivering ??= storage.feedFlushed().then(() => webhook.close());
    return delivering;
  };
  closing.push(deliverLast);
  const cleanups = createSessionCleanups();
  closing.push(cleanups.finished);
  const sessions = createSessions({ store, bounds: first.sessions, quotas: () => quotasFromConfig(config()) });
  sessions.onEnded((_, reason) => {
    if (reason !== 'unloaded') lastEndedAt = performance.now();
  });
  const team = openTeam({
    store,
    sessions,
    messageSettings: () => config().sessions.messages,
    allowsToDirect: (id) => findWorkspace(config(), id)?.messages.toDirect === true,
  });
  closing.push(team.close);
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
  // An identity provider and another system with keys have several users.
  const ofSeveralUsers = async () => {
    const { jwt, keys: callback } = config().auth;
    return jwt.length > 0 || callback !== undefined || keys.areOfSeveralUsers();
  };
  const removalListeners: ((userId: string) => Promise<void>)[] = [];
  const onUserRemoved = async (userId: string) =>
    void (await Promise.all([
      team.forgetUser(userId),
      endedSessions.forgetUser(userId),
      ...removalListeners.map((hear) => hear(userId)),
    ]));
  const { governance, policies } = openGovernance({
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
    team,
    cleanups,
    folders,
    directory,
    people: createDirectoryAdmin({ directory, sessions, config, journal, onUserRemoved }),
    lifecycle,
    endedSessions,
    governance,
    policies,
    inspector: createSessionInspector({
      config,
      store,
      keys,
      folders,
      team,
      policies,
      journal,
      hasSeveralUsers: ofSeveralUsers,
    }),
    open: (draft, bounds = {}) =>
      openSessionInFolder(sessions, config(), folders, draft, { ...bounds, hasSeveralUsers: ofSeveralUsers }),
    onUserRemoved: (listener) => void removalListeners.push(listener),
    deliverLastEvents: () => void deliverLast()?.catch(() => {}),
  };
}

/** Opens a session with its own folder, if it has one. Without the folder there is no session. */
async function openSessionInFolder(
  sessions: Sessions,
  config: Config,
  folders: SessionFolders,
  draft: SessionDraft,
  bounds: OpeningBounds,
): Promise<OpenedSession> {
  const opened = await openSession(sessions, config, draft, bounds);
  if (!folders.hasOwnFolder(opened.session)) return opened;
  try {
    await folders.folderFor(opened.session);
    return opened;
  } catch (error) {
    await sessions.end(opened.session.id).catch(() => false);
    throw error;
  }
}

export function createCommonOperator(storage: Storage, parts: SessionParts): CommonOperator {
  const { settings, paths, log, journal } = storage;
  const { sessions, people, policies, endedSessions, folders, inspector } = parts;
  return {
    log,
    sessions,
    people,
    policies,
    endedSessions,
    folders,
    inspector,
    calls: journal.calls,
    searchJournal: journal.search,
    readStatistics: journal.statistics,
    paths,
    openSession: (draft, openedBy) => parts.open(draft, { mayChooseWorkspace: true, openedBy }),
    restrictSession: (id, change) => restrictSession(sessions, settings.config(), id, change),
    async issueToken(id) {
      const token = await sessions.issueToken(id);
      journal.record({ kind: 'session', event: 'token-made', sessionId: id });
      return token;
    },
    recordResolution: (sessionId, servers) =>
      journal.record({ kind: 'session', event: 'servers-resolved', sessionId, servers: servers.join(' ') }),
    usage: sessions.usage,
  };
}

/** Opens the webhook of the configuration, if it has one. */
async function openWebhook(
  settings: Config['events']['webhook'],
  { dataDir, lifecycle, log }: Pick<WebhookOptions, 'lifecycle' | 'log'> & { readonly dataDir: string },
): Promise<Webhook | undefined> {
  if (settings === undefined) return undefined;
  const [{ openWebhookQueue }, { createWebhook, openWebhookKey }] = await Promise.all([
    import('../../sessions/events/webhook-queue.ts'),
    import('../../sessions/events/webhook.ts'),
  ]);
  const key = await openWebhookKey(join(dataDir, 'webhook-secret'), settings.secretFile, 'events.webhook.secretFile');
  const queue = openWebhookQueue(join(dataDir, 'webhook'), log);
  return createWebhook({ url: settings.url, key, lifecycle, log, queue });
}
