import { join } from 'node:path';
import { openCatalogFile } from '../../upstreams/catalog/catalog-file.ts';
import type { RunGit } from '../../workspaces/session-folders/git/git.ts';
import { createWriteQuota } from '../../workspaces/write-quota.ts';
import type { Gateway, GatewayOptions, Operator, ServerAccess } from '../gateway.ts';
import { createObserver } from '../observer.ts';
import { describeServers } from '../server-activity.ts';
import type { ServerAdmin } from '../server-admin/server-admin.ts';
import { cleanUpEndedSessions, noSessionWork } from './clean-up-ended-sessions.ts';
import { type ClosingStack, createClosingStack, openOnStack } from './closing-stack.ts';
import type { AuthParts } from './open-auth.ts';
import type { Sandbox } from './open-sandbox.ts';
import { createCommonOperator, openSessions, type SessionParts } from './open-sessions.ts';
import { openStorage, type Storage } from './open-storage.ts';
import type { GatewayParts } from './react-to-change.ts';

/**
 * Opens the parts for a command without a gateway. It starts no process except git for sessions with their own folder.
 * Parts that few commands need are loaded on first use.
 */
export function openOperator(options: GatewayOptions): Promise<Operator & Pick<Gateway, 'close'>> {
  return openOnStack(async (closing) => {
    const storage = await openStorage(options, closing);
    const openSandbox = openLazily(closing, async (later) => {
      const module = await import('./open-sandbox.ts');
      return module.openSandbox(options.dataDir, later);
    });
    const git: RunGit = async (...run) => (await openSandbox()).git(...run);
    const sessions = await openSessions(storage, git, closing);
    const openAuth = openLazily(closing, async (later) => {
      const module = await import('./open-auth.ts');
      return module.openAuth({ storage, credentials: true }, later);
    });
    const openAccess = openLazily(closing, (later) => loadAccess({ storage, sessions, openSandbox }, later));
    const openServers = openLazily(closing, async (later) =>
      loadServerAdmin({ storage, auth: (await openAuth()).auth, openSandbox }, later),
    );
    watchSessions(storage, sessions, openAuth, closing);
    storage.recordOpened();
    return {
      ...createCommonOperator(storage, sessions),
      // Examining the sandbox would start programs. Only a running gateway reports it.
      sandbox: async () => null,
      running: undefined,
      config: storage.config,
      listServers: async (signal) =>
        describeServers(storage.settings.servers().values(), (await openAuth()).approvals, undefined, signal),
      openAuth: async () => (await openAuth()).auth,
      openAccess,
      openServers,
      close: closing.close,
    };
  });
}

interface AccessSources extends Pick<GatewayParts, 'storage' | 'sessions'> {
  readonly openSandbox: () => Promise<Sandbox>;
}

async function loadAccess(needs: AccessSources, closing: ClosingStack): Promise<ServerAccess> {
  const { storage, sessions } = needs;
  const [{ openAccess }, { openOwnTools }] = await Promise.all([
    import('./open-access.ts'),
    import('./open-own-tools.ts'),
  ]);
  const sandbox = await needs.openSandbox();
  const access = await openAccess({ storage, sessions, credentials: true }, closing);
  return openOwnTools({ storage, sandbox, sessions, access }, closing).access;
}

interface ServerAdminSources extends Pick<AuthParts, 'auth'>, Pick<AccessSources, 'storage' | 'openSandbox'> {}

async function loadServerAdmin(
  { storage, auth, openSandbox }: ServerAdminSources,
  closing: ClosingStack,
): Promise<ServerAdmin> {
  const [{ createServerAdmin }, { selectOffers }, { createApprovals }, { createFetchedPackage }] = await Promise.all([
    import('../server-admin/server-admin.ts'),
    import('../../upstreams/catalog/catalog.ts'),
    import('../../upstreams/pins/approvals.ts'),
    import('../inspect/inspect-server.ts'),
  ]);
  const { settings, paths } = storage;
  const { dataDir } = paths;
  const approvals = createApprovals({ dataDir, fetchedPackage: createFetchedPackage(dataDir) });
  closing.push(approvals.close);
  const file = openCatalogFile(join(dataDir, 'catalog.json'));
  return createServerAdmin({
    ...settings,
    ...{ paths, approvals, logins: auth.logins, openSandbox, reload: undefined },
    offers: (name) => selectOffers(file.load(), name),
  });
}

function watchSessions(
  storage: Storage,
  parts: SessionParts,
  openAuth: () => Promise<AuthParts>,
  closing: ClosingStack,
): void {
  const { journal, store, log, paths } = storage;
  const { dataDir } = paths;
  const files = createWriteQuota({
    documents: store.documents,
    isEnded: async (id) => (await store.get(id)) === undefined,
  });
  cleanUpEndedSessions({ ...parts, journal, observer: createObserver(log), files, dataDir }, noSessionWork);
  parts.onUserRemoved(async (userId) => {
    const offers = openCatalogFile(join(dataDir, 'catalog.json'));
    offers.remove((_, owner) => owner.userId === userId);
    await offers.close();
    await (await openAuth()).auth.removeAllOf(userId);
  });
  closing.push(async () => {
    await parts.sessions.close();
    parts.deliverLastEvents();
  });
}

/** Opens a part on first use. It closes in the order of this call, however late it is opened. */
function openLazily<T>(closing: ClosingStack, open: (later: ClosingStack) => Promise<T>): () => Promise<T> {
  const later = createClosingStack();
  let opened: Promise<T> | undefined;
  closing.push(async () => {
    await opened?.catch(() => {});
    await later.close();
  });
  return () => {
    opened ??= open(later);
    return opened;
  };
}
