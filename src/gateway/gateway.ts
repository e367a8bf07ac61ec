import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createApprovals } from '../approvals/approvals.ts';
import { assertApproved } from '../approvals/assert-approved.ts';
import { createResultCache } from '../cache/result-cache.ts';
import { assertOutOfReach } from '../config/protect.ts';
import { createContextWriters } from '../context/call-context.ts';
import { createPseudonyms } from '../context/pseudonyms.ts';
import { inlineKeys, openSigningKeys } from '../context/signing-keys.ts';
import { createLifecycle, heardAll } from '../events/lifecycle.ts';
import { openWebhook } from '../events/open-webhook.ts';
import { openJournal } from '../journal/journal.ts';
import { createRefusals } from '../journal/refusals.ts';
import { safeLog } from '../logging/safe-log.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { takeDataDir } from '../private-files.ts';
import { removeFolder } from '../remove-folder.ts';
import { createRunners } from '../runners/runners.ts';
import { createTmpRoot, sweepLeftovers } from '../runners/sweep-leftovers.ts';
import { createWarden } from '../runners/warden.ts';
import { placeOf } from '../sessions/in-workspace.ts';
import { quotasOf } from '../sessions/quotas-of.ts';
import { createRequestPace } from '../sessions/request-pace.ts';
import { restrictSession } from '../sessions/restrict-session.ts';
import { createSessions } from '../sessions/sessions.ts';
import { openStore } from '../stores/open-store.ts';
import { openTelemetry } from '../telemetry/open-telemetry.ts';
import { createSessionTools } from '../tools/session-tools.ts';
import { absentLink } from '../upstreams/absent-link.ts';
import { type Caller, createCallers } from '../upstreams/caller.ts';
import { createCatalog } from '../upstreams/catalog/catalog.ts';
import { catalogFile } from '../upstreams/catalog/catalog-file.ts';
import { createConnect } from '../upstreams/connect.ts';
import { createEraVerdicts } from '../upstreams/era-verdicts.ts';
import { createLinks } from '../upstreams/links.ts';
import { createProcessAllowance } from '../upstreams/process-allowance.ts';
import { createSeals } from '../upstreams/relay/seals.ts';
import { createGitRunner } from '../workspaces/isolation/git.ts';
import { createSessionFolders } from '../workspaces/isolation/session-folders.ts';
import { createAggregate } from './aggregate/aggregate.ts';
import { createComposite } from './aggregate/children.ts';
import { allServers } from './aggregate/for-all.ts';
import { announceChange } from './announce.ts';
import { announceLists, noteListChange } from './announce-lists.ts';
import { createCachedCalls } from './cached-calls.ts';
import { createConfirmCall } from './confirm-call.ts';
import { inwardCorridor, visitCorridor } from './corridor.ts';
import { explainCall } from './explain-call.ts';
import { fetchedInto, packagesIn } from './fetch-package.ts';
import { createFilesOfSessions } from './files-of-sessions.ts';
import { createForgetLists } from './forget-lists.ts';
import type { GatewayOptions } from './gateway-options.ts';
import { openGiven } from './given-to-servers.ts';
import { govern } from './governing.ts';
import { createIdentify } from './identify.ts';
import { createJwtIdentity } from './jwt-identity.ts';
import { createKeepInBounds } from './keep-in-bounds.ts';
import { createObserver } from './observe.ts';
import { openDirectory } from './open-directory.ts';
import type { Gateway } from './opened-gateway.ts';
import type { ServerAccess } from './operator.ts';
import { outwardCorridor } from './outward.ts';
import { createOwnTools, ownServer } from './own-tools.ts';
import { quietLink } from './quiet-link.ts';
import { createRememberedTransports } from './remembered-transports.ts';
import { createResolution } from './resolution.ts';
import { lookForSandbox } from './sandbox-state.ts';
import { followSessions } from './session-lives.ts';
import { createSettings } from './settings.ts';
import { sweepFolders } from './sweep-folders.ts';
import { createToolBounds } from './tool-bounds.ts';
import { createToolListeners } from './tool-listeners.ts';
import { createVetting } from './vet-tools.ts';

export type { Gateway };

export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const { configFile, dataDir } = options;
  const log = safeLog(options.log);
  const settings = createSettings(options.config, dirname(configFile));
  const { config } = options;
  for (const dir of new Set([dataDir, options.storeDir ?? dataDir])) {
    assertOutOfReach({ configFile, dataDir: dir, config });
    takeDataDir(dir);
  }
  const tmpParent = join(dataDir, 'tmp');
  await sweepLeftovers(tmpParent);
  const tmpRoot = await createTmpRoot(tmpParent);
  const journal = openJournal(join(dataDir, 'journal', 'journal.jsonl'), log);
  const warden = createWarden({ tmpRoot });
  // Started ahead where there are processes to come, so that the first call need not wait for it; where it cannot be,
  // that call says so.
  const hasPrograms = Object.values(config.servers).some(({ command }) => command !== undefined);
  if (hasPrograms && options.brief !== true) void warden.start().catch(() => {});
  const keys = await openSigningKeys(join(dataDir, 'keys'));
  const pseudonyms = createPseudonyms(keys.pseudonymSecret);
  const runners = createRunners({ warden, tmpRoot, packages: packagesIn(dataDir) });
  const folders = createSessionFolders({
    config: settings.config,
    dataDir,
    log,
    git: createGitRunner({ sandbox: runners.sandbox, tmpRoot }),
    record: (event, which, detail) => journal.record({ kind: 'session', event, ...which, detail }),
  });
  const contexts = createContextWriters({
    keys,
    pseudonyms,
    issuer: config.listen.publicUrl ?? keys.name,
    workload: `ambit:${randomBytes(8).toString('hex')}`,
    pathOf: folders.path,
  });
  const store = options.store ?? (await openStore(config.store, options.storeDir ?? dataDir));
  const alone = (await readdir(tmpParent)).length <= 1;
  if (alone || store.capabilities.shared !== 'process') await sweepFolders(dataDir, store, folders);
  const lifecycle = createLifecycle(store);
  const webhook = await openWebhook(config.events.webhook, { dataDir, lifecycle, log });
  const sessions = createSessions({ store, bounds: config.sessions, quotas: () => quotasOf(settings.config()) });
  const refusals = createRefusals(journal);
  const pace = createRequestPace({ callsPerMinute: () => settings.config().quotas.session.callsPerMinute });
  const opened = openDirectory({
    store,
    sessions,
    settings,
    folders,
    journal,
    log,
    onUserRemoved: (userId) => {
      forgetLists.ofUser(userId);
      return given.removeAllOf(userId);
    },
  });
  const { directory, people, open } = opened;
  const jwt = createJwtIdentity(config.auth.jwt, log);
  const metrics = createMetrics({
    isServer: (name) => name === ownServer || settings.servers().has(name),
    liveSessions: () => sessions.held().length,
  });
  const telemetry = openTelemetry(config.telemetry, options.environment, log, metrics.spans);
  const observer = createObserver(log, metrics);
  const callers = createCallers();
  const approvals = createApprovals({ dataDir, fetchedPackage: fetchedInto(dataDir) });
  const verdicts = createEraVerdicts(join(dataDir, 'eras.json'));
  verdicts.describeAll(settings.servers().values());
  const vetting = createVetting(approvals, journal, log);
  const offers = catalogFile(join(dataDir, 'catalog.json'));
  const catalog = createCatalog(offers, vetting.vet);
  const forgetLists = createForgetLists({ catalog, config: settings.config, users: directory.users, store });
  forgetLists.ofLostWorkspaces();
  const stopApprovals = approvals.onChange((names) => {
    for (const name of names.filter((each) => !vetting.pinnedJustNow(each))) {
      // What runs under an approval that is no longer given ends with what is under way.
      const server = settings.servers().get(name);
      if (server !== undefined && approvals.check(server).state !== 'approved') links.retire(name);
      catalog.describedAnew(name);
    }
  });
  const deliver = outwardCorridor(journal);
  const any = options.credentials !== false;
  const given = await openGiven({ any, store, settings, dataDir, journal, approvals });
  const { carrying } = given;
  const resolution = createResolution({
    config: settings.config,
    servers: settings.servers,
    latest: sessions.get,
    approvals,
    dataDir,
    configFile,
    log,
    telling: { pseudonyms, jwks: (file) => inlineKeys(keys, file), jwksFile: keys.jwksFile },
    carrying,
    folders,
  });
  const lists = { catalog, callers, sessions, servers: settings.servers, resolution };
  const tools = createToolBounds({ config: settings.config, latest: sessions.get });
  const confirmCall = createConfirmCall({ resolution, tools, approvals });
  const listeners = createToolListeners();
  const sandbox = lookForSandbox(runners);
  const links = createLinks({
    connect: createConnect({
      config: settings.config,
      tmpRoot,
      runners,
      journal,
      seals: createSeals(),
      keys: settings.keys,
      contexts,
      assertApproved: (server) => assertApproved(approvals, server),
      admit: resolution.admit,
      launch: resolution.launch,
      allowance: createProcessAllowance(() => settings.config().processes),
      watch: observer.processOf,
      toldNothing: metrics.toldNothing,
      headersFor: carrying.headers,
      refusedBy: carrying.refused,
    }),
    verdicts,
    outward(sent) {
      noteListChange(sent, links, lists);
      return deliver(sent);
    },
    messageBytes: config.limits.messageBytes,
    current: (session, { name }) => resolution.permitted(session, name),
    latest: resolution.latest,
    isApart: folders.isApart,
  });

  const userOf = ({ sessionId }: Caller) => sessions.get(sessionId)?.userId;
  given.follow(links, (server, concerns) => {
    forgetLists.ofCredentials(concerns);
    announceChange(callers, [server], (caller) => concerns(userOf(caller) ?? '', server));
  });
  const cache = createResultCache();
  const cached = createCachedCalls({
    cache,
    config: settings.config,
    catalog,
    resolution,
    looked: metrics.cacheLooked,
    isApart: folders.isApart,
  });
  const files = createFilesOfSessions({
    config: settings.config,
    store,
    journal,
    folders,
    runners,
    tmpRoot,
    dataDir,
    log,
  });
  const { governance, policies } = govern({ store, config: settings.config, directory, keys, journal, log });
  const { contextOf } = governance;
  const own = createOwnTools(createSessionTools({ sessions, store, files, contextOf }), tools);
  const remembered = createRememberedTransports({
    marks: store.marks,
    callers,
    sessions,
    linkFor(session, server, initialize) {
      if (server === allServers) return createComposite(session, initialize, links, callers);
      if (server === ownServer) return quietLink(session, ownServer);
      return absentLink(session.id, placeOf(session), server);
    },
    forgotten: governance.forget,
  });
  const aggregate = createAggregate({
    links,
    callers,
    catalog,
    resolution,
    tools,
    cached,
    own,
    confirmCall,
    remember: remembered.remember,
  });
  const kept = { links, callers, aggregate, resolution, tools, listeners };
  const bounds = createKeepInBounds({ ...kept, servers: settings.servers });
  announceLists(lists);
  const lives = followSessions({
    sessions,
    journal,
    observer,
    callers,
    catalog,
    cache,
    links,
    warden,
    bounds,
    files,
    sandbox,
    dataDir,
    folders,
  });
  const identify = createIdentify({
    sessions,
    keys: directory.keys,
    verifyJwt: jwt?.verify,
    log,
    ...config.auth,
  });
  const parts = {
    journal,
    log,
    metrics,
    includeMeta: () => settings.config().sessions.includeMeta,
    sessions,
    pace,
    refusals,
    marks: store.marks,
    bindsAddress: config.sessions.bindAddress,
    callers,
    remembered,
    links,
    resolution,
    tools,
    listeners,
    aggregate,
    own,
    governance,
    catalog,
    cached,
    confirmCall,
    identify,
    identity: { keys: directory.keys, onRevoked: directory.onRevoked },
    selecting: { config: settings.config, callers, log },
    keys: settings.keys,
    watchStages: options.watchStages,
    tracer: telemetry?.tracer,
    resolving: opened.resolving(callers, remembered),
  };
  journal.record({ kind: 'gateway', event: 'opened', pid: process.pid });

  const access: ServerAccess = {
    explain: resolution.explain,
    narrowsTools: (server) => tools.of(server) !== undefined,
    explainCall: (session, tool, args) => explainCall({ resolution, tools, own }, session, tool, args),
    hasOwnTools: (session) => own.texts(session).length > 0,
  };
  return {
    ...access,
    openAccess: async () => access,
    get config() {
      return settings.config();
    },
    serve: inwardCorridor(parts),
    visit: visitCorridor(parts),
    identify,
    refused: refusals.record,
    sessions,
    metrics,
    log,
    lifecycle,
    servers: settings.servers,
    transportVersion: (id) => (id === undefined ? undefined : callers.get(id)?.version),
    places: { configFile, dataDir },
    jwks: keys.jwks,
    sandbox: sandbox.look,
    openSession: (draft) => open(draft),
    directory,
    people,
    jwt,
    folders,
    restrictSession: (id, change) => restrictSession(sessions, settings.config(), id, change),
    async furtherToken(id) {
      const token = await sessions.furtherToken(id);
      journal.record({ kind: 'session', event: 'token-made', sessionId: id });
      return token;
    },
    credentials: given.credentials,
    logins: given.logins,
    policies,
    reload(next) {
      assertOutOfReach({ configFile, dataDir, config: next });
      const follow = bounds.beforeReload(sessions.held(), settings.config());
      const changed = settings.replace(next);
      follow(next);
      verdicts.describeAll(settings.servers().values());
      for (const name of changed) {
        links.retire(name);
        catalog.describedAnew(name);
      }
      forgetLists.ofLostWorkspaces();
      journal.record({ kind: 'gateway', event: 'reloaded', changed: changed.join(' ') });
      return changed;
    },
    ready: () => store.ping(),
    live: () => ({ sessions: sessions.held().length, links: links.size(), transports: callers.size }),
    usage: (id) => store.usage(id),
    calls: journal.calls,
    controlled: (what) => journal.record({ kind: 'gateway', event: 'control', ...what }),
    async close() {
      // What was done last reaches the feed a moment later.
      const heard = heardAll(store);
      const told = heard.then(() => webhook?.close());
      await sessions.close();
      await lives.stopped();
      await governance.close();
      await links.close();
      await files.close();
      await heard;
      await forgetLists.close();
      await offers.close();
      await sandbox.settled();
      given.close();
      directory.close();
      cache.close();
      stopApprovals();
      approvals.close();
      // The folders of sessions are settled by git, which the warden has to see.
      await lives.over();
      await warden.close();
      await told;
      await telemetry?.close();
      lifecycle.close();
      await store.close();
      await removeFolder(tmpRoot);
      keys.close();
      refusals.close();
      journal.record({ kind: 'gateway', event: 'closed', pid: process.pid });
      await journal.close();
    },
  };
}
