import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import { type Removal, removalOf, type SessionInWorkspace } from '../../rules/permitted-server.ts';
import type { Session } from '../../sessions/session.ts';
import { standingAs } from '../../sessions/session-views.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import { type Carrying, carryingNothing } from '../auth/carry-credentials.ts';
import { type ListOwner, listOwner } from '../catalog/list-owner.ts';
import type { ServerDefinition, StdioServer } from '../definition.ts';
import { isWide, scopeFor } from '../links/process-key.ts';
import type { Approvals } from '../pins/approvals.ts';
import { type Launch, launchOf, type Telling } from './launch.ts';

export type Found =
  | { readonly server: ServerDefinition }
  /** Without a removal there is no server of that name. */
  | { readonly server: undefined; readonly removal: Removal | undefined };

/** A session and a server that it may use, both as they are now. */
export interface CurrentAccess {
  readonly session: Session;
  readonly server: ServerDefinition;
}

/** A server as a session finds it: either what it would be given, or why it is not for this session. */
export type Resolved =
  | {
      readonly name: string;
      readonly server: ServerDefinition;
      readonly launch: Launch | undefined;
      /** It is given a credential of the session's user, which is not for others to see. */
      readonly credentials: boolean;
    }
  | { readonly name: string; readonly server: undefined; readonly removal: Removal };

/**
 * From the servers there are to the ones a session may use: load, validate, filter by trust, filter by workspace and by
 * the session's own list, inject, hand to the runner. This is the one place where those steps stand together; what is
 * loaded has been validated before it gets here, and the runner asks for `launch` before each start.
 */
export interface Resolution {
  /** Another number once the configuration or an approval has changed. */
  revision(): number;
  /** Whether the record that counts now is the one that this session was read from. */
  isLatest(session: Session): boolean;
  /** False when this process has let go of the session since whoever asks was given it. */
  holds(session: Session): boolean;
  find(session: Session, name: string): Found;
  /** In the order of the configuration. */
  available(session: Session): readonly ServerDefinition[];
  /** The session's record and the server as they are now. Throws SERVER_NOT_AVAILABLE, or SESSION_ENDED. */
  current(session: Session, name: string): CurrentAccess;
  /** The session's record as it is now; throws as `current` does. */
  admit(session: Session, server: ServerDefinition): Session;
  launch(session: Session, server: StdioServer): Launch;
  /** Differs where what a server says may differ, because it knows the user; else empty. */
  personal(session: Session, server: ServerDefinition): string;
  /** Who may be shown the lists that this session is shown of a server. */
  listOwner(session: Session, server: ServerDefinition): ListOwner;
  /** Every server of the configuration, disabled and unapproved ones included. */
  explain(session: Session): Resolved[];
}

export interface ResolutionOptions {
  readonly config: () => Config;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  /** The record that counts now; whoever asks may hold one from before it was restricted. */
  readonly latest: (id: string) => Session | undefined;
  readonly approvals: Approvals;
  readonly dataDir: string;
  readonly configFile: string;
  readonly log: Log;
  readonly telling: Telling | undefined;
  readonly folders?: SessionFolders;
  /** Left out where no server is given anybody's credential. */
  readonly carrying?: Omit<Carrying, 'headers'>;
}

interface Outcome {
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly found: ReadonlyMap<string, Found>;
  readonly available: readonly ServerDefinition[];
}

const none: readonly ServerDefinition[] = [];
const unknown: Found = { server: undefined, removal: undefined };

export function createResolution(options: ResolutionOptions): Resolution {
  // Records and configurations are replaced, never changed: an outcome holds as long as they are the same.
  const outcomes = new WeakMap<Session, Outcome>();
  const { carrying = carryingNothing } = options;
  let revision = 0;
  let basis: readonly unknown[] = [];

  function outcomeFor(session: Session): Outcome {
    const config = options.config();
    const servers = options.servers();
    const known = outcomes.get(session);
    if (known !== undefined && known.config === config && known.servers === servers) return known;
    const facts = factsOf(session, config);
    const found = new Map<string, Found>();
    const available: ServerDefinition[] = [];
    for (const server of servers.values()) {
      const removal = removalOf(server, facts);
      if (removal === undefined) available.push(server);
      found.set(server.name, removal === undefined ? { server } : { server: undefined, removal });
    }
    const outcome = { config, servers, found, available };
    outcomes.set(session, outcome);
    return outcome;
  }

  /** The record as it is now, in the workspace that was selected for this call. */
  function latest(session: Session): Session | undefined {
    const record = options.latest(session.id);
    return record === undefined || record === session ? record : standingAs(record, session);
  }

  function find(session: Session, name: string): Found {
    const now = latest(session);
    return (now === undefined ? undefined : outcomeFor(now).found.get(name)) ?? unknown;
  }

  function current(session: Session, name: string): CurrentAccess {
    const now = latest(session);
    if (now === undefined) throw new AmbitError('SESSION_ENDED');
    const server = outcomeFor(now).found.get(name)?.server;
    if (server === undefined) throw notAvailable(name);
    return { session: now, server };
  }

  const admit = (session: Session, { name }: ServerDefinition) => current(session, name).session;

  function unapproved(server: ServerDefinition): Removal | undefined {
    const { state } = options.approvals.check(server);
    if (state === 'approved') return undefined;
    if (state === 'exposed') {
      const reason = `another account could exchange what it runs; see "ambit server check ${server.name}"`;
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
    holds: (session) => options.latest(session.id) !== undefined,
    find,
    current,
    admit,

    available(session) {
      const now = latest(session);
      return now === undefined ? none : outcomeFor(now).available;
    },

    personal: carrying.revision,

    listOwner(session, server) {
      const { workspaceId } = session;
      const { workspaces } = options.config();
      const isKnown = workspaceId !== undefined && Object.hasOwn(workspaces, workspaceId);
      const folder = isKnown ? workspaces[workspaceId]?.path : undefined;
      const isApart = options.folders?.isApart(session) ?? false;
      // Where there is no workspace to work in, its process works in a folder that is made for the session.
      const isInRunFolder = server.kind === 'stdio' && folder === undefined;
      // Those who are anonymous are not one person.
      const isAnonymous = session.userId === anonymousUser;
      return listOwner(session, server, {
        folder,
        isAlone: isApart || isAnonymous || (isInRunFolder && !isWide(scopeFor(server, session, isApart))),
        credentials: carrying.revision(session, server),
      });
    },

    launch(session, server) {
      const now = admit(session, server);
      const launch = carrying.into(launchOf(now, server, options.config(), options), now, server);
      const { id, workspaceId = '(none)', trustLevel } = now;
      const scope = scopeFor(server, now, options.folders?.isApart(now) ?? false);
      const whom = isWide(scope) ? { scope } : { session: id };
      options.log.debug?.('context injected', {
        server: server.name,
        ...whom,
        workspace: workspaceId,
        trust: trustLevel,
      });
      return launch;
    },

    explain(session) {
      const config = options.config();
      return Object.keys(config.servers).map((name): Resolved => {
        const found = find(session, name);
        if (found.server === undefined) {
          const removal = found.removal ?? { rule: `servers.${name}.disabled`, reason: 'it is disabled' };
          return { name, server: undefined, removal };
        }
        const { server } = found;
        const removal = unapproved(server);
        if (removal !== undefined) return { name, server: undefined, removal };
        // An agent SDK starts its own, and shares it with nobody.
        const launch =
          server.kind === 'stdio'
            ? carrying.named(launchOf(session, server, config, options, 'session'), session, server)
            : undefined;
        return { name, server, launch, credentials: carrying.concerns(session, server) };
      });
    },
  };
}

function factsOf({ trustLevel, servers, workspaceId: id }: Session, config: Config): SessionInWorkspace {
  const known = id !== undefined && Object.hasOwn(config.workspaces, id) ? config.workspaces[id] : undefined;
  const workspace = id === undefined ? undefined : { id, servers: known?.capabilities.servers };
  return { trustLevel, servers, workspace: workspace as SessionInWorkspace['workspace'] };
}

/** To the agent, a server it may not use and one that is not there look alike. */
export function notAvailable(name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', { what: `No server "${name}" is available to this session.` });
}
