import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createApprovals } from '../approvals/approvals.ts';
import { assertApproved } from '../approvals/assert-approved.ts';
import { assertOutOfReach } from '../config/protect.ts';
import type { Config } from '../config/schema.ts';
import { createContextWriters } from '../context/call-context.ts';
import { createPseudonyms } from '../context/pseudonyms.ts';
import { inlineKeys, openSigningKeys } from '../context/signing-keys.ts';
import { isAmbitError } from '../errors.ts';
import { createLifecycle, heardAll, type Lifecycle } from '../events/lifecycle.ts';
import { openWebhook } from '../events/open-webhook.ts';
import { openJournal } from '../journal/journal.ts';
import type { Log } from '../log.ts';
import { createPlainRunner } from '../runners/plain.ts';
import { removeFolder } from '../runners/remove-folder.ts';
import { createTmpRoot, sweepLeftovers } from '../runners/sweep-leftovers.ts';
import { createWarden } from '../runners/warden.ts';
import { goneBecause } from '../sessions/gone-because.ts';
import type { Quotas } from '../sessions/grants.ts';
import { inWorkspace } from '../sessions/in-workspace.ts';
import { type OpenedSession, openSession } from '../sessions/open-session.ts';
import { restrictSession } from '../sessions/restrict-session.ts';
import type { Narrowing, Session, SessionDraft } from '../sessions/session.ts';
import { createSessions, type Sessions } from '../sessions/sessions.ts';
import type { Use } from '../stores/admission.ts';
import { openStore } from '../stores/open-store.ts';
import type { SessionStore } from '../stores/store.ts';
import { createSessionTools } from '../tools/session-tools.ts';
import { createCallers } from '../upstreams/caller.ts';
import { createCatalog } from '../upstreams/catalog/catalog.ts';
import { catalogFile } from '../upstreams/catalog/catalog-file.ts';
import { createConnect } from '../upstreams/connect.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import { createEraVerdicts } from '../upstreams/era-verdicts.ts';
import { createLinks } from '../upstreams/links.ts';
import { createSeals } from '../upstreams/relay/seals.ts';
import type { Reply } from '../wire/channel.ts';
import { createAggregate } from './aggregate/aggregate.ts';
import { announceChange } from './announce.ts';
import type { Next } from './chain.ts';
import { inwardCorridor, visitCorridor } from './corridor.ts';
import type { Arrived } from './exchange.ts';
import { type CallExplanation, explainCall } from './explain-call.ts';
import { createKeepInBounds } from './keep-in-bounds.ts';
import { outwardCorridor } from './outward.ts';
import { createOwnTools } from './own-tools.ts';
import { createResolution, type Resolved } from './resolution.ts';
import { createSettings } from './settings.ts';
import { createToolBounds } from './tool-bounds.ts';
import { createToolListeners } from './tool-listeners.ts';
import { createVetting } from './vet-tools.ts';
import type { Visit, Visited } from './visit.ts';

const defaultName = 'default';

export interface GatewayOptions {
  readonly config: Config;
  readonly configFile: string;
  readonly dataDir: string;
  readonly log: Log;
  /** Instead of the one the configuration names; closed with the gateway. */
  readonly store?: SessionStore;
  /** For a look or a change without serving anybody: nothing is started ahead. */
  readonly brief?: boolean;
  /** Where a store that is a file lies, if not in the data directory. */
  readonly storeDir?: string;
}

/** The gateway without its doors: entrances bring exchanges to `serve` and visitors to `visit`. */
export interface Gateway {
  readonly config: Config;
  readonly serve: Next<Arrived, Reply>;
  readonly visit: Next<Visit, Visited>;
  readonly sessions: Sessions;
  /** What happens to the sessions of the store, for those outside who listen. */
  readonly lifecycle: Lifecycle;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The revision a transport session negotiated; it tells how to read a body, and proves nothing. */
  transportVersion(transportId: string | undefined): string | undefined;
  openSession(draft: SessionDraft): Promise<OpenedSession>;
  /** Narrows a session, and ends what no longer fits. */
  restrictSession(id: string, change: Narrowing): Promise<Session>;
  /** A further token for a session; that one was made is recorded. */
  furtherToken(id: string): Promise<string>;
  /** Every server there is, as this session finds it. */
  explain(session: Session): Resolved[];
  /** Whether rules or lists narrow which tools of this server may be called. */
  narrowsTools(server: string): boolean;
  /** What a call of this tool with these arguments, JSON text, would get, and why. */
  explainCall(session: Session, tool: string, args: string | undefined): CallExplanation;
  /** The public keys that its contexts verify with, as a JWK Set. */
  jwks(): string;
  /** Where another process finds this gateway. */
  readonly places: { readonly configFile: string; readonly dataDir: string };
  /**
   * Puts another configuration in place without dropping calls; returns the servers that changed. Bounds of sessions,
   * identity and addresses keep what they were at the start.
   */
  reload(next: Config): string[];
  /** Resolves when sessions can be read and written. */
  ready(): Promise<void>;
  /** What a session has used of its quotas. */
  usage(id: string): Promise<Use | undefined>;
  /** Ends every process, and writes down what is still unwritten. Sessions live on where the store outlives us. */
  close(): Promise<void>;
}

export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const { configFile, dataDir, log } = options;
  const settings = createSettings(options.config, dirname(configFile));
  const { config } = options;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  for (const dir of [dataDir, options.storeDir ?? dataDir]) assertOutOfReach({ configFile, dataDir: dir, config });
  const tmpParent = join(dataDir, 'tmp');
  await mkdir(tmpParent, { recursive: true, mode: 0o700 });
  await sweepLeftovers(tmpParent);
  const tmpRoot = await createTmpRoot(tmpParent);
  const journal = openJournal(join(dataDir, 'journal', 'journal.jsonl'));
  const warden = createWarden({ tmpRoot });
  // Started ahead, so that the first call need not wait for it; where it cannot be, that call says so.
  if (options.brief !== true) void warden.start().catch(() => {});
  const keys = await openSigningKeys(join(dataDir, 'keys'));
  const pseudonyms = createPseudonyms(keys.pseudonymSecret);
  const contexts = createContextWriters({
    keys,
    pseudonyms,
    issuer: config.listen.publicUrl ?? keys.name,
    workload: `ambit:${randomBytes(8).toString('hex')}`,
    pathOf: (workspaceId) => settings.config().workspaces[workspaceId]?.path,
  });
  const store = options.store ?? (await openStore(config.store, options.storeDir ?? dataDir));
  const alone = (await readdir(tmpParent)).length <= 1;
  if (alone || store.capabilities.shared !== 'process') await sweepRunFolders(join(dataDir, 'run'), store);
  const lifecycle = createLifecycle(store);
  const webhook = await openWebhook(config.events.webhook, { dataDir, lifecycle, log });
  const sessions = createSessions({ store, bounds: config.sessions, quotas: () => quotasOf(settings.config()) });
  const callers = createCallers();
  const approvals = createApprovals({ dataDir });
  const verdicts = createEraVerdicts(join(dataDir, 'eras.json'));
  const describe = () => {
    for (const server of settings.servers().values()) verdicts.describe(server.name, server.era, server.definitionHash);
  };
  describe();
  const vetting = createVetting(approvals, journal, log);
  const catalog = createCatalog(catalogFile(join(dataDir, 'catalog.json')), vetting.vet);
  const stopApprovals = approvals.onChange((names) => {
    for (const name of names.filter((each) => !vetting.pinnedJustNow(each))) {
      // What runs under an approval that is no longer given ends with what is under way.
      const server = settings.servers().get(name);
      if (server !== undefined && approvals.check(server).state !== 'approved') links.retire(name);
      catalog.describedAnew(name);
    }
  });
  const deliver = outwardCorridor(journal);
  const resolution = createResolution({
    config: settings.config,
    servers: settings.servers,
    latest: sessions.get,
    approvals,
    dataDir,
    log,
    telling: { pseudonyms, jwks: () => inlineKeys(keys) },
  });
  const tools = createToolBounds({ config: settings.config, latest: sessions.get });
  const listeners = createToolListeners();
  const links = createLinks({
    connect: createConnect({
      config: settings.config,
      tmpRoot,
      runner: createPlainRunner({ warden }),
      journal,
      seals: createSeals(),
      keys: settings.keys,
      contexts,
      assertApproved: (server) => assertApproved(approvals, server),
      admit: resolution.admit,
      launch: resolution.launch,
    }),
    verdicts,
    outward(sent) {
      if (/^notifications\/\w+\/list_changed$/.test(sent.message.method))
        catalog.changed(sent.upstream.name, sent.link.place);
      return deliver(sent);
    },
    messageBytes: config.limits.messageBytes,
    current: (session, { name }) => resolution.permitted(session, name),
  });

  const own = createOwnTools(createSessionTools({ sessions, store }), tools);
  const aggregate = createAggregate({ links, callers, catalog, resolution, tools, own });
  const bounds = createKeepInBounds({
    links,
    callers,
    aggregate,
    resolution,
    tools,
    listeners,
    servers: settings.servers,
  });
  catalog.onChange((server, byOurselves) => {
    if (byOurselves) announceChange(callers, [server]);
  });

  /** For each session that is just ending: when it is all over, and before that, when its processes have ended. */
  const ending = new Map<Promise<unknown>, Promise<void>>();
  sessions.onOpened((session) => {
    journal.record({ kind: 'session', event: 'created', ...facts(session) });
  });
  sessions.onEnded((session, reason) => {
    if (reason !== 'unloaded') {
      journal.record({ kind: 'session', event: reason, sessionId: session.id, userId: session.userId });
    }
    callers.endSession(session.id);
    catalog.forget(session.id);
    const stopped = links.endSession(session.id, goneBecause(reason));
    const over = stopped
      // Whoever a process left behind may still be writing there.
      .then(() => warden.settled())
      .then(() => (reason === 'unloaded' ? undefined : removeFolder(join(dataDir, 'run', session.id))))
      .finally(() => ending.delete(over));
    ending.set(over, stopped);
  });

  sessions.onRestricted((session, before) => {
    journal.record({ kind: 'session', event: 'restricted', ...facts(session) });
    catalog.forget(session.id);
    const over: Promise<void> = bounds.restricted(session, before).finally(() => ending.delete(over));
    ending.set(over, over);
  });

  async function openFor({ userId }: { readonly userId: string }, name?: string): Promise<Session> {
    log.warn(`a session was opened for the ${userId} user`);
    const named = name === undefined ? {} : { name };
    const opened = await openSession(sessions, settings.config(), { userId, trustLevel: 'sandboxed', ...named });
    return opened.session;
  }

  /** Kept by name, so that it is found again after a restart, and by every process on this store. */
  async function defaultFor(principal: { readonly userId: string }): Promise<Session> {
    const { userId } = principal;
    for (;;) {
      const found = await sessions.find(defaultName, { userId });
      const session = found === undefined ? undefined : sessions.get(found.id);
      if (session !== undefined) return session;
      try {
        return await openFor(principal, defaultName);
      } catch (error) {
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  const parts = {
    journal,
    log,
    sessions,
    callers,
    links,
    resolution,
    tools,
    listeners,
    aggregate,
    own,
    catalog,
    identity: { sessions, ...config.auth },
    selecting: { config: settings.config, callers, log },
    keys: settings.keys,
    resolving: { sessions, callers, openFor, defaultFor },
  };
  /** A session's record, and how it stands in each workspace it works in. */
  function standings(session: Session): Session[] {
    if (session.workspaceId !== undefined) return [session];
    return [session, ...[...links.workspacesOf(session.id)].map((id) => inWorkspace(session, id))];
  }
  journal.record({ kind: 'gateway', event: 'opened', pid: process.pid });

  return {
    get config() {
      return settings.config();
    },
    serve: inwardCorridor(parts),
    visit: visitCorridor(parts),
    sessions,
    lifecycle,
    servers: settings.servers,
    transportVersion: (id) => (id === undefined ? undefined : callers.get(id)?.version),
    places: { configFile, dataDir },
    jwks: keys.jwks,
    openSession: (draft) => openSession(sessions, settings.config(), draft),
    restrictSession: (id, change) => restrictSession(sessions, settings.config(), id, change),
    async furtherToken(id) {
      const token = await sessions.furtherToken(id);
      journal.record({ kind: 'session', event: 'token-made', sessionId: id });
      return token;
    },
    explain: resolution.explain,
    narrowsTools: (server) => tools.of(server) !== undefined,
    explainCall: (session, tool, args) => explainCall({ resolution, tools, own }, session, tool, args),
    reload(next) {
      assertOutOfReach({ configFile, dataDir, config: next });
      const live = sessions.held().flatMap(standings);
      const follow = bounds.beforeReload(live, settings.config());
      const changed = settings.replace(next);
      follow(next);
      describe();
      for (const name of changed) {
        links.retire(name);
        catalog.describedAnew(name);
      }
      journal.record({ kind: 'gateway', event: 'reloaded', changed: changed.join(' ') });
      return changed;
    },
    ready: () => store.ping(),
    usage: (id) => store.usage(id),
    async close() {
      // What was done last reaches the feed a moment later.
      const told = heardAll(store).then(() => webhook?.close());
      await sessions.close();
      await Promise.all([...ending.values()]);
      await links.close();
      stopApprovals();
      approvals.close();
      await warden.close();
      await Promise.all([...ending.keys()]);
      await told;
      lifecycle.close();
      await store.close();
      await removeFolder(tmpRoot);
      keys.close();
      journal.record({ kind: 'gateway', event: 'closed', pid: process.pid });
      await journal.close();
    },
  };
}

/** Folders of sessions that ended while nobody was looking. */
async function sweepRunFolders(run: string, store: SessionStore): Promise<void> {
  const names = await readdir(run).catch((): string[] => []);
  for (const name of names) {
    // Not a name of ours: whatever it is, no session will miss it.
    const live = await store
      .get(name)
      .catch((error: unknown) => !isAmbitError(error) || error.code !== 'REQUEST_INVALID');
    if (live === undefined || live === false) await removeFolder(join(run, name));
  }
}

function quotasOf({ quotas: { session, user, workspace } }: Config): Quotas {
  return { session, ...(isBounded(user) ? { user } : {}), ...(isBounded(workspace) ? { workspace } : {}) } as Quotas;
}

function isBounded(limits: object): boolean {
  return Object.values(limits).some((limit) => limit !== undefined);
}

function facts(session: Session): Record<string, string | number | undefined> {
  return {
    sessionId: session.id,
    userId: session.userId,
    agentId: session.agentId,
    workspaceId: session.workspaceId,
    trustLevel: session.trustLevel,
    ttlSeconds: session.ttlSeconds,
    servers: session.servers?.join(' '),
  };
}
