import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Reply } from '../../protocol/channel.ts';
import { memberOf, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { EraFault } from '../../protocol/protocol-fault.ts';
import type { Session } from '../../sessions/session.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { HttpServer, InProcessServer, ServerDefinition, StdioServer, Upstream } from '../definition.ts';
import { bridgeToHandshake } from './bridge/to-handshake.ts';
import { translateHandshake } from './bridge/translate-handshake.ts';
import type { Connect } from './connect.ts';
import type { EraVerdicts } from './era-verdicts.ts';
import { handshakeKey, knowsNoHandshake, ownHandshake } from './handshake.ts';
import { handshakeManner } from './http/handshake-manner.ts';
import { modernManner } from './http/modern-manner.ts';
import type { Remote } from './http/send.ts';
import { createKeptLinks, type Kept, type Tenancy } from './kept-links.ts';
import type { Call, Link } from './link.ts';
import { createPerCallLink, type PerCallOptions } from './per-call-link.ts';
import { scopeFor } from './process-key.ts';
import type { Outward } from './sent.ts';
import { handshakeOpening, modernOpening, selfOpening } from './stdio/opening.ts';

export interface LinksOptions {
  readonly connect: Connect;
  readonly verdicts: EraVerdicts;
  readonly outward: Outward;
  readonly messageBytes: number;
  /**
   * The session and the server as they are now, which may be later than when the call came in: the session may have had
   * more trust, and shares its processes with others. Throws when the session has ended or may not use the server.
   */
  current(session: Session, server: string): { readonly session: Session; readonly server: ServerDefinition };
  /** Whether the session works in a folder of its own. */
  readonly isApart?: (session: Session) => boolean;
}

export interface Opened {
  readonly reply: Reply;
  readonly link: Link;
  /** Undefined when the upstream refused the handshake. */
  readonly version: string | undefined;
}

export interface Links {
  /** A modern request: straight to a modern upstream, over a bridge to any other. */
  modern(session: Session, server: Upstream, call: Call): Promise<Reply>;
  /** A modern client's notification; a server of the other era has no use for one. */
  notifyModern(session: Session, server: Upstream, call: Call): void;
  /** Answers an `initialize`: by a handshake with the upstream, from an equal one before, or over a bridge. */
  handshake(session: Session, server: Upstream, call: Call): Promise<Opened>;
  /** All that the session uses, in whatever workspace, links that others use too among them. */
  of(sessionId: string, server: string): Link[];
  /** The workspaces in which the session has links. */
  workspacesOf(sessionId: string): ReadonlySet<string>;
  /**
   * The server is gone or described anew, for all or for those that fit: its links take no new clients, finish what is
   * under way, and end.
   */
  retire(server: string, fits?: (tenancy: Tenancy) => boolean): void;
  /** True when this link will serve the session no longer. */
  isRetired(link: Link, sessionId: string): boolean;
  /** The sessions that a link serves, each as it was when it last called. */
  usersOf(link: Link): Session[];
  /** Ends what is the session's own, all or to one server, at once; from what others use too it is cut off. */
  endSession(sessionId: string, reason: AmbitError, server?: string): Promise<void>;
  /** Ends the links of a server at once, those of the sessions that fit. */
  end(server: string, reason: AmbitError, fits: (session: Session) => boolean): Promise<void>;
  close(): Promise<void>;
  size(): number;
}

const tendEveryMs = 1000;
/** Links to one server that one session uses, with a process or without: those kept for clients that may come back, and all. */
const spareLinks = 8;
const mostLinks = 80;

/** The live connections to upstreams. Which sessions share one is decided by the scope of its server. */
export function createLinks(options: LinksOptions): Links {
  const { connect, verdicts, outward, messageBytes, current, isApart = () => false } = options;
  const kept = createKeptLinks();

  function keep<L extends Link>(
    session: Session,
    server: ServerDefinition,
    name: string,
    make: (tenancy: Tenancy) => L,
  ): Link {
    const scope = scopeFor(server, session, isApart(session));
    return (kept.find(session, scope, name) ?? kept.add(session, scope, name, make)).link;
  }

  /** A link as its scope wants it: one for all calls, or one for each. */
  function scoped(
    session: Session,
    server: StdioServer,
    { era, known }: Pick<PerCallOptions, 'era' | 'known'>,
    make: () => Link,
  ): Link {
    if (server.scope !== 'call') return make();
    const place = placeOf(session);
    return createPerCallLink({ sessionId: session.id, place, server: server.name, era, make, known });
  }

  function native(session: Session, server: ServerDefinition): Link {
    const known = kept.find(session, scopeFor(server, session, isApart(session)), server.name);
    if (known !== undefined) return known.link;
    return keep(session, server, server.name, (tenancy) =>
      server.kind === 'stdio'
        ? scoped(session, server, { era: 'modern', known: nothing }, () =>
            connect.stdio(tenancy, server, 'modern', modernOpening(server.name, verdicts), outward),
          )
        : connect.http(session, server, (remote) => modernManner(remote, verdicts, messageBytes), outward),
    );
  }

  /** A modern client's way to a server of the handshake era. Clients with equal capabilities share one. */
  function bridged(session: Session, server: ServerDefinition, call: Call): Link {
    const params = ownHandshake(call.message);
    return keep(session, server, `${server.name} bridged ${params}`, (tenancy) => {
      makeRoom(session, server);
      if (server.kind === 'http') return bridgedHttp(session, server, params);
      return scoped(session, server, { era: 'modern', known: nothing }, () =>
        bridgeToHandshake(connect.binding(tenancy, server.name), outward, (hear) => {
          const opening = selfOpening(params);
          const link = connect.stdio(tenancy, server, 'handshake', opening, hear);
          return { link, handshake: () => opening.handshake };
        }),
      );
    });
  }

  function bridgedHttp(session: Session, server: HttpServer, params: string): Link {
    return bridgeToHandshake(connect.binding(session, server.name), outward, (hear) => {
      let manner: ReturnType<typeof handshakeManner> | undefined;
      const mannerOf = (remote: Remote) => {
        manner = handshakeManner(remote, messageBytes, params);
        return manner;
      };
      return { link: connect.http(session, server, mannerOf, hear), handshake: () => manner?.handshake };
    });
  }

  /** Until it is known which era a server speaks: a modern call is how one finds out. */
  async function findingOut(session: Session, server: ServerDefinition, call: Call): Promise<Reply> {
    try {
      return await native(session, server).request(call);
    } catch (error) {
      if (!(error instanceof EraFault)) throw error;
    }
    const now = current(session, server.name);
    return bridged(now.session, now.server, call).request(call);
  }

  /** One client's own, whoever shares the link it stands on. */
  async function translated(session: Session, server: ServerDefinition, call: Call): Promise<Opened> {
    const way = { binding: connect.binding(session, server.name), outward };
    const opened = await translateHandshake(server, native(session, server), call, way);
    // The session may have ended meanwhile.
    current(session, server.name);
    kept.add(session, 'session', `${server.name} translated ${randomUUID()}`, () => opened.link);
    return opened;
  }

  function sharedFor(session: Session, server: ServerDefinition, call: Call): Kept {
    if (server.kind === 'http') {
      // Over HTTP each client has a session of the upstream's own: nothing is shared.
      return kept.add(session, 'session', `${server.name} handshake ${randomUUID()}`, () =>
        connect.http(session, server, (remote) => handshakeManner(remote, messageBytes), outward),
      );
    }
    const name = `${server.name} handshake ${handshakeKey(call.message)}`;
    const scope = scopeFor(server, session, isApart(session));
    const found = kept.find(session, scope, name);
    if (found !== undefined) return found;
    makeRoom(session, server);
    const opening = handshakeOpening();
    const make = (tenancy: Tenancy) =>
      scoped(session, server, { era: 'handshake', known: opening.answer }, () =>
        connect.stdio(tenancy, server, 'handshake', opening, outward),
      );
    return kept.add(session, scope, name, make, opening);
  }

  /** A client that declares other capabilities each time must not get link after link. */
  function makeRoom(session: Session, server: ServerDefinition): void {
    if (server.kind !== 'stdio') return;
    const siblings = kept.ofSession(session.id).filter(({ link }) => link.server === server.name);
    if (siblings.length < spareLinks) return;
    // What others use too is not for one session to end.
    const own = siblings.filter(({ tenancy }) => tenancy.users.size === 1);
    const deserted = own.find(
      ({ link, shaking }) =>
        link.attached() === 0 && shaking === undefined && !link.isBusy() && link.era === 'handshake',
    );
    const idle = deserted ?? own.find(({ name, link }) => name.includes(' bridged ') && !link.isBusy());
    if (idle !== undefined) kept.discard(idle);
    else if (siblings.length >= mostLinks) throw new AmbitError('OVERLOADED');
  }

  const timer = setInterval(() => kept.tend(Date.now()), tendEveryMs).unref();

  return {
    size: kept.size,

    modern(opener, asked, call) {
      if (asked.kind === 'in-process') return asked.links.modern.request(call);
      const { session, server } = current(opener, asked.name);
      const verdict = verdicts.get(server.name);
      // Over HTTP a server may turn out to speak another era than it did; a process is what it was when it started.
      if (verdict === 'modern' && server.kind === 'stdio') return native(session, server).request(call);
      if (verdict === 'handshake') return bridged(session, server, call).request(call);
      return findingOut(session, server, call);
    },

    notifyModern(opener, asked, call) {
      if (asked.kind === 'in-process') return asked.links.modern.notify(call);
      const { session, server } = current(opener, asked.name);
      if (verdicts.get(server.name) !== 'handshake') native(session, server).notify(call);
    },

    async handshake(opener, asked, call) {
      if (asked.kind === 'in-process') return handshakeInProcess(asked, call);
      const { session, server } = current(opener, asked.name);
      if (server.era === 'modern') return translated(session, server, call);
      const shared = sharedFor(session, server, call);
      // However many clients come at once, the process is shaken hands with once.
      while (shared.shaking !== undefined) await shared.shaking.catch(() => {});
      const asking = shared.link.request(call);
      shared.shaking = asking;
      let reply: Reply;
      try {
        reply = await asking;
      } catch (error) {
        kept.discard(shared);
        throw error;
      } finally {
        shared.shaking = undefined;
      }
      const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
      const opening = shared.opening ?? handshakeOpening();
      const version =
        opening.handshake?.version ??
        (answer === undefined ? undefined : opening.remember(call.message, answer)?.version);
      if (version !== undefined) return { reply, link: shared.link, version };
      kept.discard(shared);
      if (answer !== undefined && knowsNoHandshake(answer)) {
        return translated(current(session, server.name).session, server, call);
      }
      return { reply, link: shared.link, version };
    },

    of: (sessionId, server) =>
      kept
        .ofSession(sessionId)
        .map(({ link }) => link)
        .filter((link) => link.server === server),

    workspacesOf: (sessionId) =>
      new Set(kept.ofSession(sessionId).flatMap(({ tenancy: { workspaceId } }) => workspaceId ?? [])),

    retire(server, fits) {
      kept.retire(({ link, tenancy }) => link.server === server && (fits === undefined || fits(tenancy)));
    },

    isRetired: (link, sessionId) => kept.isRetired(link) || !kept.serves(link, sessionId),

    usersOf: kept.usersOf,

    async endSession(sessionId, reason, server) {
      await kept.leave(sessionId, reason, (link) => server === undefined || link.server === server);
      if (server === undefined) connect.forgetSession(sessionId);
    },

    end: (server, reason, fits) =>
      kept.end(reason, ({ link, tenancy }) => link.server === server && [...tenancy.users.values()].some(fits)),

    async close() {
      clearInterval(timer);
      await kept.close(new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' }));
    },
  };
}

async function handshakeInProcess({ links: { handshake: link } }: InProcessServer, call: Call): Promise<Opened> {
  const reply = await link.request(call);
  const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
  const version = answer && stringAt(answer.bytes, memberOf(answer.result?.shape, 'protocolVersion'));
  return { reply, link, version };
}

function nothing(): undefined {}
