import { type ConfiguredWorkspace, findWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Loaded, SessionBase } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { viewLike } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { type CredentialAuth, noCredentialAuth } from '../auth/credentials.ts';
import { createListOwner, type ListOwner } from '../catalog/catalog-file.ts';
import type { ServerDefinition, StdioServer } from '../definition.ts';
import { isShared, processScopeFor } from '../links/process-key.ts';
import type { Approvals } from '../pins/approvals.ts';
import { prepareLaunch, type ServerLaunch, type SigningInfo } from './launch.ts';
import { findLaunchObstacle } from './launch-obstacle.ts';

/** The part of a server that decides who may use it. */
export interface ServerTrust {
  readonly name: string;
  /** The trust levels of sessions that may use it. */
  readonly trust: readonly TrustLevel[];
}

/** The part of a session, and of its workspace, that decides which servers it may use. */
export interface SessionInWorkspace extends Pick<Loaded<SessionBase>, 'trustLevel' | 'servers'> {
  readonly workspace:
    | { readonly id: string; readonly servers: 'all' | 'none' | readonly string[] }
    /** The workspace is no longer configured, so nobody can say what may be used there. */
    | { readonly id: string; readonly servers: undefined }
    | undefined;
}

/** The reason why a session may not use a server, and the rule that says so. */
interface AccessDenial {
  readonly rule: string;
  readonly reason: string;
}

type ServerLookup =
  | { readonly server: ServerDefinition }
  /** Without a removal there is no server of that name. */
  | { readonly server: undefined; readonly removal: AccessDenial | undefined };

/** A session and a server that it may use, both as they are now. */
interface CurrentAccess {
  readonly session: Session;
  readonly server: ServerDefinition;
}

/** A server as a session sees it: either its launch, or the reason why the session may not use it. */
export type ResolvedServer =
  | {
      readonly name: string;
      readonly server: ServerDefinition;
      readonly launch: ServerLaunch | undefined;
      /** True when the server gets a credential of the session's user, which others must not see. */
      readonly credentials: boolean;
      /** The reason why it cannot start, as far as that shows without starting it. */
      readonly obstacle: string | undefined;
    }
  | { readonly name: string; readonly server: undefined; readonly removal: AccessDenial };

/**
 * Resolves the servers that a session may use, by its trust level, its workspace and its own list, and what each is
 * started with. The runner asks for `launch` before each start.
 */
export interface ServerResolution {
  /** Changes with the configuration and with the approvals. */
  revision(): number;
  /** True when the session is its latest record. */
  isLatest(session: Session): boolean;
  /** False when this process no longer holds the session. */
  hasSession(session: Session): boolean;
  find(session: Session, name: string): ServerLookup;
  /** The servers that the session may use, in the order of the configuration. */
  listAvailable(session: Session): readonly ServerDefinition[];
  /** Reads the session and the server as they are now. Throws SERVER_NOT_AVAILABLE, or SESSION_ENDED. */
  requireAccess(session: Session, name: string): CurrentAccess;
  /** Reads the session as it is now; throws as `requireAccess` does. */
  admit(session: Session, server: ServerDefinition): Session;
  launch(session: Session, server: StdioServer): ServerLaunch;
  /** Differs between users where the server knows the user; else empty. */
  personalKey(session: Session, server: ServerDefinition): string;
  /** The owner of the lists that this session gets from a server. */
  listOwnerFor(session: Session, server: ServerDefinition): ListOwner;
  /** Explains every server of the configuration, including disabled and unapproved ones. */
  explain(session: Session): ResolvedServer[];
}

interface ServerResolutionOptions {
  readonly config: () => Config;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  /** Finds the latest record. A caller may hold one from before a restriction. */
  readonly latest: (id: string) => Session | undefined;
  readonly approvals: Approvals;
  readonly dataDir: string;
  readonly configFile: string;
  readonly log: Log;
  readonly signing: SigningInfo | undefined;
  readonly folders?: SessionFolders;
  /** Left out where no server gets a credential. */
  readonly auth?: Omit<CredentialAuth, 'headers'>;
}

interface SessionServers {
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly workspace: ConfiguredWorkspace | undefined;
  readonly found: ReadonlyMap<string, ServerLookup>;
  readonly available: readonly ServerDefinition[];
}

const noServers: readonly ServerDefinition[] = [];
const unknownServer: ServerLookup = { server: undefined, removal: undefined };

export function createServerResolution(options: ServerResolutionOptions): ServerResolution {
  // Records and configurations are replaced, never changed: a result holds as long as they are the same.
  const bySession = new WeakMap<Session, SessionServers>();
  const { auth = noCredentialAuth } = options;
  let revision = 0;
  let basis: readonly unknown[] = [];

  function serversFor(session: Session): SessionServers {
    const config = options.config();
    const servers = options.servers();
    const known = bySession.get(session);
    // The folder of a pattern may have come or gone since.
    const workspace = findWorkspace(config, session.workspaceId);
    const isSame = known?.config === config && known.servers === servers && known.workspace === workspace;
    if (known !== undefined && isSame) return known;
    const access = readAccessFacts(session, workspace);
    const found = new Map<string, ServerLookup>();
    const available: ServerDefinition[] = [];
    for (const server of servers.values()) {
      const removal = findAccessDenial(server, access);
      if (removal === undefined) available.push(server);
      found.set(server.name, removal === undefined ? { server } : { server: undefined, removal });
    }
    const resolved = { config, servers, workspace, found, available };
    bySession.set(session, resolved);
    return resolved;
  }

  /** The latest record, in the workspace that was selected for this call. */
  function latest(session: Session): Session | undefined {
    const record = options.latest(session.id);
    return record === undefined || record === session ? record : viewLike(record, session);
  }

  function find(session: Session, name: string): ServerLookup {
    const now = latest(session);
    return (now === undefined ? undefined : serversFor(now).found.get(name)) ?? unknownServer;
  }

  function requireAccess(session: Session, name: string): CurrentAccess {
    const now = latest(session);
    if (now === undefined) throw new AmbitError('SESSION_ENDED');
    const server = serversFor(now).found.get(name)?.server;
    if (server === undefined) throw notAvailableError(name);
    return { session: now, server };
  }

  const admit = (session: Session, { name }: ServerDefinition) => requireAccess(session, name).session;

  function findApprovalProblem(server: ServerDefinition): AccessDenial | undefined {
    const { state } = options.approvals.check(server);
    if (state === 'approved') return undefined;
    if (state === 'exposed') {
      const reason = `another user could replace the program it runs; see "ambit server check ${server.name}"`;
      return { rule: 'approval', reason };
    }
    const why = state === 'changed' ? 'it has changed since it was approved' : 'it has not been approved';
    return { rule: 'approval', reason: `${why}; see "ambit server approve ${server.name}"` };
  }

  return {
    revision() {
      const [config, approved] = [options.config(), options.approvals.revision()];
      if (config === basis[0] && approved === basis[1]) return revision;
      basis = [config, approved];
      return ++revision;
    },

    isLatest: ({ id, version }) => options.latest(id)?.version === version,
    hasSession: (session) => options.latest(session.id) !== undefined,
    find,
    requireAccess,
    admit,

    listAvailable(session) {
      const now = latest(session);
      return now === undefined ? noServers : serversFor(now).available;
    },

    personalKey: auth.revision,

    listOwnerFor(session, server) {
      const folder = findWorkspace(options.config(), session.workspaceId)?.path;
      const hasOwnFolder = options.folders?.hasOwnFolder(session) ?? false;
      // Without a workspace, the process works in a folder that is made for the session.
      const isInRunFolder = server.kind === 'stdio' && folder === undefined;
      // Anonymous sessions may belong to different people.
      const isAnonymous = session.userId === anonymousUser;
      return createListOwner(session, server, {
        folder,
        isAlone:
          hasOwnFolder || isAnonymous || (isInRunFolder && !isShared(processScopeFor(server, session, hasOwnFolder))),
        credentials: auth.revision(session, server),
      });
    },

    launch(session, server) {
      const now = admit(session, server);
      const launch = auth.addTo(prepareLaunch(now, server, options.config(), options), now, server);
      const { id, workspaceId: workspace = '(none)', trustLevel: trust } = now;
      const scope = processScopeFor(server, now, options.folders?.hasOwnFolder(now) ?? false);
      const subject = isShared(scope) ? { scope } : { session: id };
      options.log.debug?.('context injected', { server: server.name, ...subject, workspace, trust });
      return launch;
    },

    explain(session) {
      const config = options.config();
      return Object.keys(config.servers).map((name): ResolvedServer => {
        const found = find(session, name);
        if (found.server === undefined) {
          const removal = found.removal ?? { rule: `servers.${name}.disabled`, reason: 'it is disabled' };
          return { name, server: undefined, removal };
        }
        const { server } = found;
        const removal = findApprovalProblem(server);
        if (removal !== undefined) return { name, server: undefined, removal };
        // An agent SDK starts a process of its own and does not share it.
        const launch =
          server.kind === 'stdio'
            ? auth.describe(prepareLaunch(session, server, config, options, 'session'), session, server)
            : undefined;
        const credentials = auth.hasAny(session, server);
        return { name, server, launch, credentials, obstacle: findObstacle(server, launch) };
      });
    },
  };
}

function findObstacle(server: ServerDefinition, launch: ServerLaunch | undefined): string | undefined {
  if (server.kind !== 'stdio' || launch === undefined) return undefined;
  const searchPath = launch.env['PATH'] ?? process.env['PATH'];
  return findLaunchObstacle(server, {
    searchPath,
    folders: [launch.cwd],
    isSandboxed: launch.confinement !== undefined,
  });
}

function readAccessFacts(
  { trustLevel, servers, workspaceId: id }: Session,
  known: ConfiguredWorkspace | undefined,
): SessionInWorkspace {
  const workspace = id === undefined ? undefined : { id, servers: known?.capabilities.servers };
  return { trustLevel, servers, workspace: workspace as SessionInWorkspace['workspace'] };
}

/** The agent gets the same error for a server that it may not use and for one that does not exist. */
export function notAvailableError(name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', { what: `No server "${name}" is available to this session.` });
}

function checkTrust({ name, trust }: ServerTrust, { trustLevel }: SessionInWorkspace): AccessDenial | undefined {
  if (trust.includes(trustLevel)) return undefined;
  const whom = trust.length === 0 ? 'no session' : `${trust.join(' and ')} sessions only`;
  return { rule: `servers.${name}.trust`, reason: `it is for ${whom}; this session is ${trustLevel}` };
}

function checkWorkspace({ name }: ServerTrust, { workspace }: SessionInWorkspace): AccessDenial | undefined {
  if (workspace === undefined) return undefined;
  const { id, servers } = workspace;
  if (servers === undefined) return { rule: `workspaces.${id}`, reason: `the workspace "${id}" no longer exists` };
  if (servers === 'all' || (servers !== 'none' && servers.includes(name))) return undefined;
  const reason =
    servers === 'none'
      ? `no server may be used in "${id}"`
      : `it is not in the list of servers of the workspace "${id}"`;
  return { rule: `workspaces.${id}.capabilities.servers`, reason };
}

function checkSessionServers({ name }: ServerTrust, { servers }: SessionInWorkspace): AccessDenial | undefined {
  if (servers === undefined || servers.includes(name)) return undefined;
  return { rule: 'session.servers', reason: 'it is not in the list of servers of this session' };
}

/** Finds the first reason why a session may not use a server; undefined if it may. */
export function findAccessDenial(server: ServerTrust, session: SessionInWorkspace): AccessDenial | undefined {
  return checkTrust(server, session) ?? checkWorkspace(server, session) ?? checkSessionServers(server, session);
}
