import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Era, FinalReply } from '../../protocol/channel.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { EraError } from '../../protocol/protocol-error.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { HttpServer, InProcessServer, ServerDefinition, StdioServer, Upstream } from '../definition.ts';
import { bridgeToHandshake } from './bridge/to-handshake.ts';
import { translateHandshake } from './bridge/to-modern.ts';
import type { Connector } from './connector.ts';
import { createEraRouting } from './era-routing.ts';
import { type EraVerdicts, setVerdict } from './era-verdicts.ts';
import {
  createHandshake,
  handshakeKey,
  handshakeOpening,
  modernOpening,
  ownHandshakeOpening,
  rejectsHandshake,
} from './handshake.ts';
import { createHandshakeDialect, createModernDialect } from './http/dialects.ts';
import type { Remote } from './http/send-request.ts';
import type { Link, OnServerMessage, UpstreamCall } from './link.ts';
import {
  createLinkPool,
  createPerCallLink,
  evictIdleLink,
  type LinkPool,
  type LinkUsers,
  type PerCallOptions,
  type PooledLink,
} from './link-pool.ts';
import { isShared, processScopeFor } from './process-key.ts';
import type { SpareProcess } from './stdio/link-process.ts';

interface LinksOptions {
  readonly connect: Connector;
  readonly verdicts: EraVerdicts;
  readonly onServerMessage: OnServerMessage;
  readonly messageBytes: number;
  /**
   * Reads the session and the server as they are now. The session may have been restricted since the call came in, and
   * then shares its processes with others. Throws when the session has ended or may not use the server.
   */
  requireAccess(session: Session, server: string): { readonly session: Session; readonly server: ServerDefinition };
  /** Whether the session works in a folder of its own. */
  readonly hasOwnFolder?: (session: Session) => boolean;
  /** Called when a client and a server have agreed on the handshake era. */
  readonly onHandshake?: (server: string) => void;
}

export interface OpenedLink {
  readonly reply: FinalReply;
  readonly link: Link;
  /** Undefined when the upstream refused the handshake. */
  readonly version: string | undefined;
}

/** A link for one purpose. Its owner closes it. */
export type SeparateLink = Pick<Link, 'server' | 'request'> & { close(): void };

export interface Links {
  /** Sends a modern request: directly to a modern upstream, over a bridge to any other. */
  requestModern(session: Session, server: Upstream, call: UpstreamCall): Promise<FinalReply>;
  /** Sends a modern client's notification; a server of the other era has no use for one. */
  notifyModern(session: Session, server: Upstream, call: UpstreamCall): void;
  /**
   * Opens a link that nobody else uses, for a client with the capabilities in the request. What the server sends by itself
   * is ignored. The era of the server should be known: it is not detected here.
   */
  openSeparately(session: Session, server: ServerDefinition, request: Message): SeparateLink;
  /** Answers an `initialize`: by a handshake with the upstream, from an equal one before, or over a bridge. */
  handshake(session: Session, server: Upstream, call: UpstreamCall): Promise<OpenedLink>;
  /** The links that the session uses, in all workspaces, including those that it shares. */
  listFor(sessionId: string, server: string): Link[];
  /** The workspaces in which the session has links. */
  workspacesOf(sessionId: string): ReadonlySet<string>;
  /**
   * Retires the links of a server that is gone or has a new definition, all or those that fit. They take no new clients,
   * finish their calls, and end.
   */
  retire(server: string, fits?: (users: LinkUsers) => boolean): void;
  /** True when this link no longer serves the session. */
  isRetired(link: Link, sessionId: string): boolean;
  /** The sessions that a link serves, each as it was when it last called. */
  sessionsOf(link: Link): Session[];
  /** Ends the session's own links at once, all or to one server, and takes the session off those that it shares. */
  endSession(sessionId: string, reason: AmbitError, server?: string): Promise<void>;
  /** Ends the links of a server that serve a session that fits, at once. */
  end(server: string, reason: AmbitError, fits: (session: Session) => boolean): Promise<void>;
  close(): Promise<void>;
  size(): number;
}

const sweepEveryMs = 1000;

/** Creates the open links to upstreams. The scope of a server decides which sessions share a link. */
export function createLinks(options: LinksOptions): Links {
  const { connect, verdicts, onServerMessage, messageBytes, requireAccess, hasOwnFolder = () => false } = options;
  const pool = createLinkPool();

  function getModernLink(session: Session, server: ServerDefinition, spare?: SpareProcess): Link {
    const scope = processScopeFor(server, session, hasOwnFolder(session));
    const known = pool.find(session, scope, server.name);
    if (spare !== undefined) known?.link.adoptProcess?.(spare);
    if (known !== undefined) return known.link;
    const createDialect = (remote: Remote) => createModernDialect(remote, verdicts, messageBytes);
    const make = (users: LinkUsers) =>
      server.kind === 'stdio'
        ? wrapPerCall(session, server, 'modern', () =>
            connect.openStdio(users, server, 'modern', modernOpening(server.name, verdicts), onServerMessage, spare),
          )
        : connect.openHttp(session, server, createDialect, onServerMessage);
    return pool.add(session, scope, server.name, make).link;
  }

  /** True for a stdio server whose process has proved to be modern: the doubt about another process does not concern it. */
  function hasReadyModernLink(session: Session, server: ServerDefinition): boolean {
    if (server.kind !== 'stdio') return false;
    const scope = processScopeFor(server, session, hasOwnFolder(session));
    return pool.find(session, scope, server.name)?.link.isReady?.() === true;
  }

  /**
   * Finds or opens the bridge of a modern client to a handshake-era server. Clients with equal capabilities and extensions
   * share one.
   */
  function getBridgedLink(session: Session, server: ServerDefinition, call: UpstreamCall, spare?: SpareProcess): Link {
    const scope = processScopeFor(server, session, hasOwnFolder(session));
    const { key, params } = createHandshake(call.message, isShared(scope));
    const name = `${server.name} bridged ${key}`;
    const known = pool.find(session, scope, name);
    if (known !== undefined) return known.link;
    evictIdleLink(pool, session, server);
    return pool.add(session, scope, name, (users) => createBridge(options, users, session, server, params, spare)).link;
  }

  /** Opens the bridge of one handshake-era client to a modern server, on a link that others may share. */
  async function openTranslated(
    session: Session,
    server: ServerDefinition,
    call: UpstreamCall,
    spare?: SpareProcess,
  ): Promise<OpenedLink> {
    const parts = { binding: connect.createBinding(session, server.name), onServerMessage };
    const opened = await translateHandshake(server, getModernLink(session, server, spare), call, parts);
    // The session may have ended meanwhile.
    requireAccess(session, server.name);
    pool.add(session, 'session', `${server.name} translated ${randomUUID()}`, () => opened.link);
    return opened;
  }

  function getHandshakeLink(session: Session, server: ServerDefinition, call: UpstreamCall): PooledLink {
    if (server.kind === 'http') {
      // Over HTTP each client has its own session with the upstream: nothing is shared.
      return pool.add(session, 'session', `${server.name} handshake ${randomUUID()}`, () =>
        connect.openHttp(
          session,
          server,
          (remote) => createHandshakeDialect(remote, messageBytes, verdicts),
          onServerMessage,
        ),
      );
    }
    const name = `${server.name} handshake ${handshakeKey(call.message)}`;
    const scope = processScopeFor(server, session, hasOwnFolder(session));
    const found = pool.find(session, scope, name);
    if (found !== undefined) return found;
    evictIdleLink(pool, session, server);
    const opening = handshakeOpening();
    const make = (users: LinkUsers) => {
      const createLink = () => connect.openStdio(users, server, 'handshake', opening, onServerMessage);
      return wrapPerCall(session, server, 'handshake', createLink, opening.answer);
    };
    return pool.add(session, scope, name, make, opening);
  }

  const { requestDetectingEra, requestAsHandshake } = createEraRouting({
    verdicts,
    requireAccess,
    getModernLink,
    getBridgedLink,
  });
  const timer = setInterval(() => pool.sweep(Date.now()), sweepEveryMs).unref();

  return {
    size: pool.size,

    requestModern(opener, asked, call) {
      if (asked.kind === 'in-process') return asked.links.modern.request(call);
      const { session, server } = requireAccess(opener, asked.name);
      const isHandshake = verdicts.get(server.name) === 'handshake';
      if (isHandshake && !hasReadyModernLink(session, server)) return requestAsHandshake(session, server, call);
      return requestDetectingEra(session, server, call);
    },

    notifyModern(opener, asked, call) {
      if (asked.kind === 'in-process') return asked.links.modern.notify(call);
      const { session, server } = requireAccess(opener, asked.name);
      if (verdicts.get(server.name) !== 'handshake') getModernLink(session, server).notify(call);
    },

    openSeparately(opener, asked, request) {
      const { session, server } = requireAccess(opener, asked.name);
      // A modern server is told the capabilities with each request, so it needs no process of its own for them.
      if (verdicts.get(server.name) === 'modern') {
        return { server: server.name, request: getModernLink(session, server).request, close() {} };
      }
      return openSeparateBridge({ ...options, onServerMessage: ignoreServerMessage }, pool, session, server, request);
    },

    async handshake(opener, asked, call) {
      if (asked.kind === 'in-process') return handshakeInProcess(asked, call);
      const { session, server } = requireAccess(opener, asked.name);
      if (server.era === 'modern') return openTranslated(session, server, call);
      const shared = getHandshakeLink(session, server, call);
      const { reply, version, mayBeModern, spare } = await performHandshake(pool, shared, call);
      const opened = { reply, link: shared.link, version };
      if (mayBeModern) {
        if (verdicts.get(server.name) === 'handshake') verdicts.set(server.name, 'modern', 'answer');
        return openTranslated(requireAccess(session, server.name).session, server, call, spare).catch((error) => {
          if (error instanceof EraError) return opened;
          throw error;
        });
      }
      if (version !== undefined) options.onHandshake?.(server.name);
      return opened;
    },

    ...createLinkQueries(pool),

    async endSession(sessionId, reason, server) {
      await pool.removeSession(sessionId, reason, (link) => server === undefined || link.server === server);
      if (server === undefined) connect.forgetSession(sessionId);
    },

    end: (server, reason, fits) =>
      pool.end(reason, ({ link, users }) => link.server === server && [...users.sessions.values()].some(fits)),

    async close() {
      clearInterval(timer);
      await pool.close(new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' }));
    },
  };
}

/** The questions about the pool that the gateway asks. */
function createLinkQueries(
  pool: LinkPool,
): Pick<Links, 'listFor' | 'workspacesOf' | 'retire' | 'isRetired' | 'sessionsOf'> {
  return {
    listFor: (sessionId, server) =>
      pool
        .ofSession(sessionId)
        .map(({ link }) => link)
        .filter((link) => link.server === server),

    workspacesOf: (sessionId) =>
      new Set(pool.ofSession(sessionId).flatMap(({ users: { workspaceId } }) => workspaceId ?? [])),

    retire(server, fits) {
      pool.retire(({ link, users }) => link.server === server && (fits === undefined || fits(users)));
    },

    isRetired: (link, sessionId) => pool.isRetired(link) || !pool.serves(link, sessionId),

    sessionsOf: pool.sessionsOf,
  };
}

/** Takes a message that nobody gets. A question of the server is answered with an error. */
export const ignoreServerMessage: OnServerMessage = async () => ({ delivered: false, full: undefined });

/** Wraps a server of scope `call`, where each call has a link of its own. */
function wrapPerCall(
  session: Session,
  server: StdioServer,
  era: Era,
  createLink: () => Link,
  findKnownReply?: PerCallOptions['findKnownReply'],
): Link {
  if (server.scope !== 'call') return createLink();
  const scopeKey = sessionScopeKey(session);
  return createPerCallLink({ sessionId: session.id, scopeKey, server: server.name, era, createLink, findKnownReply });
}

function createBridge(
  options: LinksOptions,
  users: LinkUsers,
  session: Session,
  server: ServerDefinition,
  params: string,
  spare?: SpareProcess,
): Link {
  if (server.kind === 'http') return bridgeHttp(options, session, server, params);
  return wrapPerCall(session, server, 'modern', () => bridgeStdio(options, users, server, params, spare));
}

/** Opens a bridge under a name that nobody else looks for. It ends with the session, as all links do. */
function openSeparateBridge(
  options: LinksOptions,
  pool: LinkPool,
  session: Session,
  server: ServerDefinition,
  request: Message,
): SeparateLink {
  const { params } = createHandshake(request, true);
  const scope = processScopeFor(server, session, options.hasOwnFolder?.(session) ?? false);
  const pooled = pool.add(session, scope, `${server.name} separate ${randomUUID()}`, (users) =>
    createBridge(options, users, session, server, params),
  );
  return { server: server.name, request: pooled.link.request, close: () => pool.discard(pooled) };
}

function bridgeStdio(
  { connect, onServerMessage, verdicts }: LinksOptions,
  users: LinkUsers,
  server: StdioServer,
  params: string,
  spare: SpareProcess | undefined,
): Link {
  const connectBase = (onBaseMessage: OnServerMessage) => {
    const opening = ownHandshakeOpening(
      params,
      () => verdicts.confirmHandshake(server.name),
      (answer) => void setVerdict(verdicts, server.name, answer, undefined),
    );
    const link = connect.openStdio(users, server, 'handshake', opening, onBaseMessage, spare);
    return { link, handshake: () => opening.handshake };
  };
  const binding = connect.createBinding(users, server.name);
  return bridgeToHandshake(binding, onServerMessage, connectBase, server.scope === 'call');
}

function bridgeHttp(options: LinksOptions, session: Session, server: HttpServer, params: string): Link {
  const { connect, onServerMessage, messageBytes } = options;
  return bridgeToHandshake(connect.createBinding(session, server.name), onServerMessage, (onBaseMessage) => {
    let dialect: ReturnType<typeof createHandshakeDialect> | undefined;
    const createDialect = (remote: Remote) => {
      dialect = createHandshakeDialect(remote, messageBytes, options.verdicts, params);
      return dialect;
    };
    const link = connect.openHttp(session, server, createDialect, onBaseMessage);
    return { link, handshake: () => dialect?.handshake };
  });
}

/** Sends `initialize` over a pooled link, once however many clients come together. A refused link is discarded. */
async function performHandshake(pool: LinkPool, shared: PooledLink, call: UpstreamCall) {
  while (shared.pendingHandshake !== undefined) await shared.pendingHandshake.catch(() => {});
  const asking = shared.link.request(call);
  shared.pendingHandshake = asking;
  let reply: FinalReply;
  try {
    reply = await asking;
  } catch (error) {
    pool.discard(shared);
    throw error;
  } finally {
    shared.pendingHandshake = undefined;
  }
  const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
  const opening = shared.opening ?? handshakeOpening();
  const version =
    opening.handshake?.version ?? (answer === undefined ? undefined : opening.remember(call.message, answer)?.version);
  const mayBeModern = version === undefined && answer !== undefined && rejectsHandshake(answer);
  const spare = mayBeModern ? shared.link.releaseProcess?.() : undefined;
  if (version === undefined) pool.discard(shared);
  return { reply, version, mayBeModern, spare };
}

async function handshakeInProcess(
  { links: { handshake: link } }: InProcessServer,
  call: UpstreamCall,
): Promise<OpenedLink> {
  const reply = await link.request(call);
  const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
  const version = answer && readStringValue(answer.bytes, findMember(answer.result?.shape, 'protocolVersion'));
  return { reply, link, version };
}
