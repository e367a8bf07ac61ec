import { AmbitError } from '../../errors.ts';
import type { Era, FinalReply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerDefinition } from '../definition.ts';
import { hideTasks, withoutTask } from './bridge/era-translation.ts';
import type { Caller } from './caller.ts';
import type { HandshakeOpening } from './handshake.ts';
import type { Link, UpstreamCall } from './link.ts';
import { isShared, type ProcessScope, processKey } from './process-key.ts';

/** The sessions that use one link, and what they have in common. */
export interface LinkUsers {
  /** True where several sessions may use the link. */
  readonly isShared: boolean;
  readonly key: string;
  /** The trust level of all its sessions, now and later. */
  readonly trustLevel: TrustLevel;
  /** The workspace of all its sessions; undefined where they may work in several. */
  readonly workspaceId: string | undefined;
  /** The sessions by id, each as it was when it last called. */
  readonly sessions: Map<string, Session>;
  /** The session whose call came last. A process starts on its behalf. */
  latest: Session;
}

export interface PooledLink {
  readonly name: string;
  readonly users: LinkUsers;
  readonly link: Link;
  readonly opening: HandshakeOpening | undefined;
  pendingHandshake: Promise<unknown> | undefined;
}

/** The open links by the key of the sessions that share them. */
export interface LinkPool {
  /** Finds a link that is still open and counts the session among its users. */
  find(session: Session, scope: ProcessScope, name: string): PooledLink | undefined;
  add(
    session: Session,
    scope: ProcessScope,
    name: string,
    make: (users: LinkUsers) => Link,
    opening?: HandshakeOpening,
  ): PooledLink;
  ofSession(sessionId: string): PooledLink[];
  discard(pooled: PooledLink): void;
  /** Retires the links that fit: they take no new clients, finish their calls, and end. */
  retire(fits: (pooled: PooledLink) => boolean): void;
  isRetired(link: Link): boolean;
  /** Ends the links that fit at once, with their open calls. Their clients get a new link with the next call. */
  end(reason: AmbitError, fits: (pooled: PooledLink) => boolean): Promise<void>;
  /** False for a shared link that this session no longer uses. */
  serves(link: Link, sessionId: string): boolean;
  /** The sessions that use a link, or the bridge on top of it. */
  sessionsOf(link: Link): Session[];
  /** Removes the session from the links that fit and closes those that nobody else uses. */
  removeSession(sessionId: string, reason: AmbitError, fits: (link: Link) => boolean): Promise<void>;
  sweep(now: number): void;
  close(reason: AmbitError): Promise<void>;
  size(): number;
}

const drainMs = 60_000;

export function createLinkPool(): LinkPool {
  const byKey = new Map<string, Map<string, PooledLink>>();
  const bySession = new Map<string, Set<PooledLink>>();
  const retired = new Map<Link, { readonly pooled: PooledLink; readonly until: number }>();
  const usersByLink = new WeakMap<Link, LinkUsers>();
  const keyOf = createKeyCache();

  function addUser(pooled: PooledLink, session: Session): void {
    const { sessions } = pooled.users;
    pooled.users.latest = session;
    const known = sessions.get(session.id);
    if (known === session) return;
    sessions.set(session.id, session);
    if (known === undefined) addToSession(pooled, session.id);
  }

  function addToSession(pooled: PooledLink, sessionId: string): void {
    const own = bySession.get(sessionId) ?? new Set();
    bySession.set(sessionId, own.add(pooled));
  }

  function removeFromSession(pooled: PooledLink, sessionId: string): void {
    const own = bySession.get(sessionId);
    own?.delete(pooled);
    if (own?.size === 0) bySession.delete(sessionId);
  }

  function removeLink(pooled: PooledLink): void {
    const siblings = byKey.get(pooled.users.key);
    if (siblings?.get(pooled.name) === pooled) siblings.delete(pooled.name);
    if (siblings?.size === 0) byKey.delete(pooled.users.key);
    for (const sessionId of pooled.users.sessions.keys()) removeFromSession(pooled, sessionId);
  }

  function listAll(): PooledLink[] {
    return [...byKey.values()].flatMap((siblings) => [...siblings.values()]);
  }

  function listRetired(): PooledLink[] {
    return [...retired.values()].map(({ pooled }) => pooled);
  }

  return {
    find(session, scope, name) {
      const pooled = byKey.get(keyOf(session, scope))?.get(name);
      if (pooled === undefined || pooled.link.isClosed()) return undefined;
      addUser(pooled, session);
      return pooled;
    },

    add(session, scope, name, make, opening) {
      const key = keyOf(session, scope);
      const users = createLinkUsers(session, scope, key);
      const pooled = { name, users, link: make(users), opening, pendingHandshake: undefined };
      const before = byKey.get(key)?.get(name);
      if (before !== undefined) removeLink(before);
      usersByLink.set(pooled.link, users);
      const { base } = pooled.link;
      if (base !== undefined && !usersByLink.has(base)) usersByLink.set(base, users);
      const siblings = byKey.get(key) ?? new Map<string, PooledLink>();
      byKey.set(key, siblings.set(name, pooled));
      addToSession(pooled, session.id);
      return pooled;
    },

    ofSession: (sessionId) => [...(bySession.get(sessionId) ?? [])],

    discard(pooled) {
      removeLink(pooled);
      void pooled.link.close(new AmbitError('UPSTREAM_FAILED'));
    },

    retire(fits) {
      for (const pooled of listAll().filter(fits)) {
        removeLink(pooled);
        retired.set(pooled.link, { pooled, until: Date.now() + drainMs });
      }
    },

    isRetired: (link) => retired.has(link) || link.isClosed(),

    async end(reason, fits) {
      const ending = [...listAll(), ...listRetired()].filter(fits);
      for (const pooled of ending) {
        removeLink(pooled);
        retired.delete(pooled.link);
      }
      await Promise.all(ending.map(({ link }) => link.close(reason)));
    },

    serves(link, sessionId) {
      const users = usersByLink.get(link);
      return users === undefined || users.sessions.has(sessionId);
    },

    sessionsOf: (link) => [...(usersByLink.get(link)?.sessions.values() ?? [])],

    async removeSession(sessionId, reason, fits) {
      const old = listRetired().filter(({ users }) => users.sessions.has(sessionId));
      const closing: Promise<void>[] = [];
      for (const pooled of [...(bySession.get(sessionId) ?? []), ...old]) {
        if (!fits(pooled.link)) continue;
        const { sessions } = pooled.users;
        if (sessions.size > 1) {
          sessions.delete(sessionId);
          // A process that is still starting goes on for the remaining sessions.
          if (pooled.users.latest.id === sessionId) pooled.users.latest = [...sessions.values()].at(-1) as Session;
          removeFromSession(pooled, sessionId);
          pooled.link.dropSession(sessionId, reason);
          continue;
        }
        removeLink(pooled);
        retired.delete(pooled.link);
        sessions.delete(sessionId);
        closing.push(pooled.link.close(reason));
      }
      await Promise.all(closing);
    },

    sweep(now) {
      for (const pooled of listAll()) {
        if (pooled.link.isClosed()) removeLink(pooled);
        else pooled.link.sweep(now);
      }
      // The base of a busy bridge is needed even while it has no call of its own.
      const needed = new Set([...retired.keys()].flatMap((link) => (link.isBusy() ? [link, link.base] : [])));
      for (const [link, { until }] of retired) {
        link.sweep(now);
        if (needed.has(link) && now < until) continue;
        retired.delete(link);
        void link.close(new AmbitError('SERVER_NOT_AVAILABLE'));
      }
    },

    async close(reason) {
      const links = [...listAll().map(({ link }) => link), ...retired.keys()];
      await Promise.all(links.map((link) => link.close(reason)));
      byKey.clear();
      bySession.clear();
      retired.clear();
    },

    size: () => listAll().length,
  };
}

function createLinkUsers(session: Session, scope: ProcessScope, key: string): LinkUsers {
  return {
    isShared: isShared(scope),
    key,
    trustLevel: session.trustLevel,
    workspaceId: scope === 'shared' ? undefined : session.workspaceId,
    sessions: new Map([[session.id, session]]),
    latest: session,
  };
}

/** Makes each key once: a session record asks for its own with every call. */
function createKeyCache(): (session: Session, scope: ProcessScope) => string {
  const keys = new WeakMap<Session, Map<ProcessScope, string>>();
  return function keyOf(session, scope) {
    let known = keys.get(session);
    if (known === undefined) {
      known = new Map();
      keys.set(session, known);
    }
    let key = known.get(scope);
    if (key === undefined) {
      key = processKey(scope, session);
      known.set(scope, key);
    }
    return key;
  };
}

/** The number of links of one session to one server from which idle ones are closed to make room. */
const maxIdleLinks = 8;
/** The number of links of one session to one server. */
const maxLinks = 80;

/** Makes room for a link of the session: a client that declares other capabilities each time must not get ever more. */
export function evictIdleLink(pool: LinkPool, session: Session, server: ServerDefinition): void {
  // Over HTTP each handshake-era client has a link of its own, and limits of its own.
  const siblings = pool
    .ofSession(session.id)
    .filter(({ link, name }) => link.server === server.name && (server.kind === 'stdio' || isBridged(name)));
  if (siblings.length < maxIdleLinks) return;
  // One session must not end the links that others use.
  const own = siblings.filter(({ users }) => users.sessions.size === 1);
  const deserted = own.find(
    ({ link, pendingHandshake }) =>
      link.callerCount() === 0 && pendingHandshake === undefined && !link.isBusy() && link.era === 'handshake',
  );
  const idle = deserted ?? own.find(({ name, link }) => isBridged(name) && !link.isBusy());
  if (idle !== undefined) pool.discard(idle);
  else if (siblings.length >= maxLinks) throw new AmbitError('OVERLOADED');
}

/** Tells whether a link with this name is the bridge of a modern client. Names of servers have no spaces. */
function isBridged(name: string): boolean {
  return name.includes(' bridged ');
}

export interface PerCallOptions {
  readonly sessionId: string;
  readonly scopeKey: string;
  readonly server: string;
  readonly era: Era;
  createLink(): Link;
  /** Finds a reply that is known already: that of a handshake before. */
  readonly findKnownReply: ((message: Message) => FinalReply | undefined) | undefined;
}

/** Creates a link of scope `call`: each request has its own process, which ends with the answer. */
export function createPerCallLink(options: PerCallOptions): Link {
  const { server, era } = options;
  const running = new Set<Link>();
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  function startLink(call: UpstreamCall): Link {
    const link = options.createLink();
    running.add(link);
    if (call.caller !== undefined) link.attach(call.caller);
    return link;
  }

  function endLink(link: Link, reason: AmbitError): Promise<void> {
    return running.delete(link) ? link.close(reason) : Promise.resolve();
  }

  /** Ends a link, unless the client still has to answer its question. */
  function endIfDone(link: Link): void {
    if (!link.isBusy() && link.holdsCall?.() !== true) void endLink(link, new AmbitError('UPSTREAM_FAILED'));
  }

  return {
    sessionId: options.sessionId,
    scopeKey: options.scopeKey,
    server,
    era,
    callerCount: () => callers.size,
    isBusy: () => [...running].some((link) => link.isBusy()),
    isClosed: () => closing !== undefined,

    async request(call) {
      if (closing !== undefined) throw closing;
      const { method } = call.message;
      const known = options.findKnownReply?.(call.message);
      if (known !== undefined) return hideTasks(known, method);
      // No process outlives its call, so there is nothing to listen to, and a task would end before it could be fetched.
      if (method === 'subscriptions/listen' || method.startsWith('tasks/'))
        throw new ProtocolError(-32601, era === 'modern' ? 404 : 200, 'Method not found');
      const link = [...running].find((each) => each.holdsCall?.(call)) ?? startLink(call);
      try {
        return hideTasks(await link.request({ ...call, ...withoutTask(call) }), method);
      } finally {
        endIfDone(link);
      }
    },

    notify(call) {
      if (call.message.method === 'notifications/initialized') return;
      for (const link of running) link.notify(call);
    },
    answer() {},
    cancel(from, requestId, message) {
      for (const link of running) link.cancel(from, requestId, message);
    },
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      for (const link of running) link.detach(caller);
    },
    listen(caller) {
      for (const link of running) link.listen(caller);
    },
    dropSession() {},
    sweep(now) {
      for (const link of running) {
        link.sweep(now);
        endIfDone(link);
      }
    },
    async close(reason) {
      closing ??= reason;
      await Promise.all([...running].map((link) => endLink(link, reason)));
    },
  };
}
