import { loadConfig } from '../../config/load/load.ts';
import { prepareWorkspaceFolders } from '../../config/load/workspace-folders.ts';
import { createConsoles } from '../../identity/consoles.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import type { Gateway, GatewayOptions } from '../gateway.ts';
import { describeProcesses } from '../inspect/list-processes.ts';
import { logInstalls } from '../observer.ts';
import { describeServers } from '../server-activity.ts';
import { createServerAdmin } from '../server-admin/server-admin.ts';
import { sweepSessionFolders } from './clean-up-ended-sessions.ts';
import { openOnStack } from './closing-stack.ts';
import { openObservability } from './open-observability.ts';
import { openPipeline } from './open-pipeline.ts';
import { openSandbox } from './open-sandbox.ts';
import { createCommonOperator, openSessions } from './open-sessions.ts';
import { openStorage } from './open-storage.ts';
import { openUpstreams } from './open-upstreams.ts';
import { type GatewayParts, reactToChange } from './react-to-change.ts';

/** Opens a gateway without entrances. Its parts close in the reverse of this order. */
export function openGateway(options: GatewayOptions): Promise<Gateway> {
  const { credentials = true, environment, serverListener } = options;
  return openOnStack(async (closing) => {
    const storage = await openStorage(options, closing);
    prepareWorkspaceFolders(options.config);
    const sandbox = await openSandbox(options.dataDir, closing, options.onInstall ?? logInstalls(storage.log));
    const sessions = await openSessions(storage, sandbox.git, closing);
    if (await maySweepFolders({ storage, sandbox }))
      await sweepSessionFolders(options.dataDir, storage.store, sessions.folders);
    const observability = openObservability({ storage, sessions, environment, serverListener }, closing);
    const upstreams = await openUpstreams({ storage, sandbox, sessions, observability, credentials }, closing);
    const pipeline = await openPipeline({ storage, sandbox, sessions, observability, upstreams, options }, closing);
    const parts = { storage, sandbox, sessions, observability, upstreams, pipeline };
    const { reload } = reactToChange(parts, closing);
    storage.recordOpened();
    return createGateway(parts, { reload, close: closing.close, logFile: options.logFile });
  });
}

/** Folders without a session may belong to another process that keeps its sessions in memory. */
async function maySweepFolders({ storage, sandbox }: Pick<GatewayParts, 'storage' | 'sandbox'>): Promise<boolean> {
  return storage.store.capabilities.shared !== 'process' || (await sandbox.isAlone());
}

/** Each request reads the file when it is its turn, so that an older content never replaces a newer one. */
function createFileReload(file: string, apply: Gateway['reload']): Gateway['reloadFile'] {
  const lock = createMutex();
  return async () => {
    const release = await lock();
    try {
      const { config, warnings } = await loadConfig({ file });
      return { changed: apply(config), warnings };
    } finally {
      release();
    }
  };
}

function createGateway(
  parts: GatewayParts,
  { logFile, ...more }: Pick<Gateway, 'reload' | 'close'> & Pick<GatewayOptions, 'logFile'>,
): Gateway {
  const { storage, sandbox, sessions: own, observability, upstreams, pipeline } = parts;
  const { settings, journal, keys, store } = storage;
  const { sessions, lifecycle, directory } = own;
  const { approvals, callers, links, auth, verdicts } = upstreams;
  const { activity } = observability;
  const { serve, handleTransport, identify, jwt, holdKey, access } = pipeline;
  const { credentials, logins } = auth;
  const reloadFile = createFileReload(storage.paths.configFile, more.reload);
  const serverAdmin = createServerAdmin({
    paths: storage.paths,
    openSandbox: async () => sandbox,
    reload: reloadFile,
    config: settings.config,
    servers: settings.servers,
    approvals,
    logins: auth.logins,
    offers: upstreams.catalog.storedOffers,
  });
  return {
    ...createCommonOperator(storage, own),
    ...access,
    ...more,
    get config() {
      return settings.config();
    },
    running: {
      startedAt: Date.now(),
      logFile,
      serverLogs: activity.logs,
      consoles: createConsoles(journal),
      processCount: activity.processCount,
      activity: observability.sessionActivity,
      listProcesses: (filter) => describeProcesses(upstreams.slots.list(), filter),
    },
    listServers: async (signal) => {
      const live = { activity, eraOf: verdicts.getCertain, usesSse: verdicts.usesSse };
      return describeServers(settings.servers().values(), approvals, live, signal);
    },
    reloadFile,
    serve,
    handleTransport,
    identify,
    jwt,
    holdKey,
    credentials,
    logins,
    openAuth: async () => auth,
    openAccess: async () => access,
    openServers: async () => serverAdmin,
    sandbox: sandbox.sandbox.check,
    metrics: observability.metrics,
    recordRefusal: observability.refusals.record,
    lifecycle,
    directory,
    servers: settings.servers,
    transportVersion: (id) => (id === undefined ? undefined : callers.get(id)?.version),
    jwks: keys.jwks,
    stopWaiting: own.team.stopWaiting,
    prepare() {
      const hasPrograms = Object.values(settings.config().servers).some(({ command }) => command !== undefined);
      // An error is ignored here: the first call reports it.
      if (hasPrograms) void sandbox.reaper.start().catch(() => {});
    },
    ready: () => store.ping(),
    live: () => ({ sessions: sessions.loaded().length, links: links.size(), transports: callers.size }),
    recordControl: (what) => journal.record({ kind: 'gateway', event: 'control', ...what }),
  };
}
