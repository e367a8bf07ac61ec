import type { Config } from '../../config/schema/schema.ts';
import type { ContextWriters } from '../../context/for-tools/call-context.ts';
import { AmbitError } from '../../errors.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Era } from '../../protocol/channel.ts';
import type { ReservedKeys } from '../../protocol/reserved-meta.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { Runners } from '../../sandbox/runner.ts';
import type { Session } from '../../sessions/session.ts';
import { contextAudience, type HttpServer, type ServerDefinition, type StdioServer } from '../definition.ts';
import type { Opening } from './handshake.ts';
import { createHttpLink } from './http/http-link.ts';
import type { HttpDialect } from './http/send-call.ts';
import { type AuthRefusal, createRemote, type Remote } from './http/send-request.ts';
import type { BaseLink, OnServerMessage } from './link.ts';
import type { LinkUsers } from './link-pool.ts';
import type { ProcessSlots } from './process-slots.ts';
import { type ContextAttacher, createContextAttacher, noContext } from './relay/context-attacher.ts';
import { createKnownTasks, type Seals } from './relay/seals.ts';
import type { Binding } from './relay/towards-upstream.ts';
import type { SpareProcess } from './stdio/link-process.ts';
import { noProcessWatch, type PreparedLaunch, type ProcessWatch } from './stdio/server-process.ts';
import { createStdioLink } from './stdio/stdio-link.ts';

interface ConnectorOptions {
  readonly config: () => Config;
  readonly tmpRoot: string;
  readonly runners: Runners;
  readonly journal: Pick<Journal, 'record'>;
  readonly seals: Seals;
  /** The `_meta` keys that pass neither way. */
  readonly keys?: () => ReservedKeys;
  /** Undefined where a server is only inspected, for no session. */
  readonly contexts: ContextWriters | undefined;
  /** Throws when a server is not approved. Called before a link is made, and before each start. */
  readonly assertApproved: (server: ServerDefinition) => void;
  /** Reads the session as it is now; throws when it has ended or may not use the server. */
  readonly admit: (session: Session, server: ServerDefinition) => Session;
  /** Reads the auth headers of the session's user for each request; throws when there are none to be had. */
  readonly headersFor?: (session: Session, server: HttpServer) => ReturnType<Remote['authHeaders']>;
  /** Handles a server that refused the auth headers; see `Remote`. */
  readonly onRefused?: (session: Session, server: HttpServer, refusal: AuthRefusal) => Promise<boolean>;
  /** Prepares each start; throws as `admit` does. */
  readonly prepareLaunch: (session: Session, server: StdioServer) => PreparedLaunch;
  readonly slots: ProcessSlots;
  readonly watch?: (server: string, sessionId: string | undefined) => ProcessWatch;
  /** Called when a call to a server over HTTP has failed. */
  readonly onUnreached?: (server: HttpServer, sessionId: string, error: Error) => void;
  /** Called when a call to a server over HTTP was answered. */
  readonly onReached?: (server: HttpServer) => void;
  /** Called for each request that goes without a context. */
  readonly onNoContext?: (server: string) => void;
}

/** Opens base links: over HTTP for one session, over stdio for the users of a process. */
export interface Connector {
  createBinding(owner: Session | LinkUsers, server: string): Binding;
  openStdio(
    users: LinkUsers,
    server: StdioServer,
    era: Era,
    opening: Opening,
    onServerMessage: OnServerMessage,
    spare?: SpareProcess,
  ): BaseLink;
  openHttp(
    session: Session,
    server: HttpServer,
    createDialect: (remote: Remote) => HttpDialect,
    onServerMessage: OnServerMessage,
  ): BaseLink;
  /** Forgets the tasks of a session that has ended. */
  forgetSession(sessionId: string): void;
}

export function createConnector(options: ConnectorOptions): Connector {
  const { journal, seals, keys } = options;
  const tasks = createKnownTasks();

  function createBinding(owner: Session | LinkUsers, server: string, attacher = noContext): Binding {
    return { seals, tasks, sessionId: soleSessionId(owner), server, keys, attacher };
  }

  /** Creates the context attacher. Requests of Ambit's own act for the session of the link, or for nobody if it is shared. */
  function createAttacherFor(owner: Session | LinkUsers, server: ServerDefinition): ContextAttacher {
    const writer =
      server.context === 'none' ? undefined : options.contexts?.for(contextAudience(server), server.context);
    const own = () => {
      if ('id' in owner) return options.admit(owner, server);
      return owner.isShared ? undefined : options.admit(owner.latest, server);
    };
    const onNoContext = () => options.onNoContext?.(server.name);
    return createContextAttacher(writer, own, { tracesInMeta: server.kind === 'stdio', onNoContext });
  }

  return {
    createBinding,
    forgetSession: tasks.forget,

    openStdio(users, server, era, opening, onServerMessage, spare) {
      const { isShared } = users;
      const admit = () => {
        options.assertApproved(server);
        assertTrustLevel(options.admit(users.latest, server).trustLevel, users.trustLevel, server);
      };
      admit();
      const config = options.config();
      const sessionId = isShared ? undefined : users.latest.id;
      const owner = processOwner(users, server);
      const isSharedByUsers = isShared && server.scope !== 'user';
      return createStdioLink({
        server,
        era,
        opening,
        spare,
        onServerMessage,
        binding: createBinding(users, server.name, createAttacherFor(users, server)),
        users,
        limits: config.limits,
        lifetimes: {
          startMs: config.processes.startSeconds * 1000,
          idleMs: config.processes.idleSeconds * 1000,
          maxMs: config.processes.maxSeconds * 1000,
        },
        processOptions: {
          runners: options.runners,
          tmpRoot: options.tmpRoot,
          journal,
          sessionId,
          watch: options.watch?.(server.name, sessionId) ?? noProcessWatch,
          messageBytes: config.limits.messageBytes,
          owner,
          takeSlot(process) {
            const { id, userId } = users.latest;
            const starter = { server: server.name, owner, isSharedByUsers, sessionId: id, userId };
            return options.slots.take({ ...process, ...starter });
          },
          prepare: () => options.prepareLaunch(users.latest, server),
          mayServe: () => options.assertApproved(server),
          mayStart: ({ confinement }) => {
            admit();
            assertTrustLevel(confinement === undefined ? 'direct' : 'sandboxed', users.trustLevel, server);
          },
        },
      });
    },

    openHttp(session, server, createDialect, onServerMessage) {
      options.assertApproved(server);
      options.admit(session, server);
      const { limits } = options.config();
      const attacher = createAttacherFor(session, server);
      const remote = createRemote(
        server,
        attacher,
        () => options.headersFor?.(session, server) ?? {},
        async (refusal) => (await options.onRefused?.(session, server, refusal)) ?? false,
        (error) => options.onUnreached?.(server, session.id, error),
        () => options.onReached?.(server),
      );
      return createHttpLink({
        server: remote,
        session,
        dialect: createDialect(remote),
        binding: createBinding(session, server.name, attacher),
        onServerMessage,
        limits,
      });
    },
  };
}

function soleSessionId(owner: Session | LinkUsers): string {
  if ('id' in owner) return owner.id;
  return owner.isShared ? '' : owner.latest.id;
}

/** The key of processes that share limits: those of one session in all workspaces, or those of the same users. */
function processOwner({ isShared, key, latest }: LinkUsers, { name }: StdioServer): string {
  return JSON.stringify(isShared ? [name, key] : [name, 'session', latest.id]);
}

/**
 * Throws when the trust level has changed: a session may be restricted while its process is prepared. A process serves
 * one trust level only.
 */
function assertTrustLevel(found: TrustLevel, expected: TrustLevel, { name }: StdioServer): void {
  if (found === expected) return;
  throw new AmbitError('UPSTREAM_FAILED', {
    what: `The session was restricted while the server "${name}" was starting.`,
    rule: 'trust',
  });
}
