import { randomUUID } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import type { Session } from '../sessions/session.ts';
import type { Reply } from '../wire/channel.ts';
import { readMessage } from '../wire/message.ts';
import { EraFault } from '../wire/protocol-fault.ts';
import { bridgeToHandshake } from './bridge/to-handshake.ts';
import { translateHandshake } from './bridge/translate-handshake.ts';
import type { Connect } from './connect.ts';
import type { ServerDefinition } from './definition.ts';
import type { EraVerdicts } from './era-verdicts.ts';
import { handshakeKey, knowsNoHandshake, ownHandshake } from './handshake.ts';
import { handshakeManner } from './http/handshake-manner.ts';
import { modernManner } from './http/modern-manner.ts';
import type { Remote } from './http/send.ts';
import type { BaseLink, Call, Link } from './link.ts';
import type { Outward } from './sent.ts';
import { type HandshakeOpening, handshakeOpening, modernOpening, selfOpening } from './stdio/opening.ts';

export interface LinksOptions {
  readonly connect: Connect;
  readonly verdicts: EraVerdicts;
  readonly outward: Outward;
  readonly messageBytes: number;
  /** The server as it is described now, which may be later than when the call came in; throws when it is gone. */
  current(session: Session, server: ServerDefinition): ServerDefinition;
}

export interface Opened {
  readonly reply: Reply;
  readonly link: Link;
  /** Undefined when the upstream refused the handshake. */
  readonly version: string | undefined;
}

export interface Links {
  /** A modern request: straight to a modern upstream, over a bridge to any other. */
  modern(session: Session, server: ServerDefinition, call: Call): Promise<Reply>;
  /** A modern client's notification; a server of the other era has no use for one. */
  notifyModern(session: Session, server: ServerDefinition, call: Call): void;
  /** Answers an `initialize`: by a handshake with the upstream, from an equal one before, or over a bridge. */
  handshake(session: Session, server: ServerDefinition, call: Call): Promise<Opened>;
  of(sessionId: string, server: string): Link[];
  /**
   * The server is gone or described anew, for all sessions or for one: its links take no new clients, finish what is
   * under way, and end.
   */
  retire(server: string, sessionId?: string): void;
  isRetired(link: Link): boolean;
  /** Ends all links of a session, or those to one server, at once. */
  endSession(sessionId: string, reason: AmbitError, server?: string): Promise<void>;
  close(): Promise<void>;
  size(): number;
}

interface Shared {
  readonly link: Link;
  readonly opening: HandshakeOpening | undefined;
  shaking: Promise<unknown> | undefined;
}

const tendEveryMs = 1000;
const drainMs = 60_000;
/** Processes of one server in one session: those kept for clients that may come back, and all of them. */
const spareProcesses = 8;
const mostProcesses = 80;

/** The live connections to upstreams, each belonging to exactly one session. */
export function createLinks({ connect, verdicts, outward, messageBytes, current }: LinksOptions): Links {
  const bySession = new Map<string, Map<string, Shared>>();
  const retired = new Map<Link, number>();

  function entriesOf(sessionId: string): Map<string, Shared> {
    const known = bySession.get(sessionId);
    if (known !== undefined) return known;
    const fresh = new Map<string, Shared>();
    bySession.set(sessionId, fresh);
    return fresh;
  }

  function keep<L extends Link>(session: Session, key: string, make: () => L): L {
    const entries = entriesOf(session.id);
    const known = entries.get(key);
    if (known !== undefined && !known.link.isClosed()) return known.link as L;
    const link = make();
    entries.set(key, { link, opening: undefined, shaking: undefined });
    return link;
  }

  function native(session: Session, server: ServerDefinition): BaseLink {
    const known = bySession.get(session.id)?.get(server.name);
    if (known !== undefined && !known.link.isClosed()) return known.link as BaseLink;
    return keep(session, server.name, () =>
      server.kind === 'stdio'
        ? connect.stdio(session, server, 'modern', modernOpening(server.name, verdicts), outward)
        : connect.http(session, server, (remote) => modernManner(remote, verdicts, messageBytes), outward),
    );
  }

  /** A modern client's way to a server of the handshake era. Clients with equal capabilities share one. */
  function bridged(session: Session, server: ServerDefinition, call: Call): Link {
    const params = ownHandshake(call.message);
    return keep(session, `${server.name} bridged ${params}`, () => {
      makeRoom(session.id, server);
      return bridgeToHandshake(connect.binding(session, server.name), outward, (hear) => {
        if (server.kind === 'stdio') {
          const opening = selfOpening(params);
          return {
            link: connect.stdio(session, server, 'handshake', opening, hear),
            handshake: () => opening.handshake,
          };
        }
        let manner: ReturnType<typeof handshakeManner> | undefined;
        const mannerOf = (remote: Remote) => {
          manner = handshakeManner(remote, messageBytes, params);
          return manner;
        };
        return { link: connect.http(session, server, mannerOf, hear), handshake: () => manner?.handshake };
      });
    });
  }

  /** Until it is known which era a server speaks: a modern call is how one finds out. */
  async function findingOut(session: Session, server: ServerDefinition, call: Call): Promise<Reply> {
    try {
      return await native(session, current(session, server)).request(call);
    } catch (error) {
      if (!(error instanceof EraFault)) throw error;
    }
    return bridged(session, current(session, server), call).request(call);
  }

  async function translated(session: Session, server: ServerDefinition, call: Call): Promise<Opened> {
    const opened = await translateHandshake(server, native(session, server), call);
    keep(session, `${server.name} translated ${randomUUID()}`, () => opened.link);
    return opened;
  }

  function sharedFor(session: Session, server: ServerDefinition, call: Call): { key: string; shared: Shared } {
    const entries = entriesOf(session.id);
    if (server.kind === 'http') {
      // Over HTTP each client has a session of the upstream's own: nothing is shared.
      const link = connect.http(session, server, (remote) => handshakeManner(remote, messageBytes), outward);
      const key = `${server.name} handshake ${randomUUID()}`;
      const shared = { link, opening: undefined, shaking: undefined };
      entries.set(key, shared);
      return { key, shared };
    }
    const key = `${server.name} handshake ${handshakeKey(call.message)}`;
    const known = entries.get(key);
    if (known !== undefined && !known.link.isClosed()) return { key, shared: known };
    makeRoom(session.id, server);
    const opening = handshakeOpening();
    const link = connect.stdio(session, server, 'handshake', opening, outward);
    const shared = { link, opening, shaking: undefined };
    entries.set(key, shared);
    return { key, shared };
  }

  /** A client that declares other capabilities each time must not get process after process. */
  function makeRoom(sessionId: string, server: ServerDefinition): void {
    if (server.kind !== 'stdio') return;
    const siblings = [...entriesOf(sessionId)].filter(([, { link }]) => link.server === server.name);
    if (siblings.length < spareProcesses) return;
    const deserted = siblings.find(
      ([, { link, shaking }]) =>
        link.attached() === 0 && shaking === undefined && !link.isBusy() && link.era === 'handshake',
    );
    const idle = deserted ?? siblings.find(([key, { link }]) => key.includes(' bridged ') && !link.isBusy());
    if (idle !== undefined) discard(sessionId, ...idle);
    else if (siblings.length >= mostProcesses) throw new AmbitError('OVERLOADED');
  }

  function discard(sessionId: string, key: string, shared: Shared): void {
    bySession.get(sessionId)?.delete(key);
    void shared.link.close(new AmbitError('UPSTREAM_FAILED'));
  }

  const timer = setInterval(() => {
    const now = Date.now();
    for (const entries of bySession.values()) {
      for (const [key, { link }] of entries) {
        if (link.isClosed()) entries.delete(key);
        else link.tend(now);
      }
    }
    // A link that a busy bridge stands on is needed, even while nothing is under way on it.
    const needed = new Set([...retired.keys()].flatMap((link) => (link.isBusy() ? [link, link.base] : [])));
    for (const [link, until] of retired) {
      link.tend(now);
      if (needed.has(link) && now < until) continue;
      retired.delete(link);
      void link.close(new AmbitError('SERVER_NOT_AVAILABLE'));
    }
  }, tendEveryMs).unref();

  return {
    size() {
      let total = 0;
      for (const entries of bySession.values()) total += entries.size;
      return total;
    },

    modern(session, server, call) {
      const verdict = verdicts.get(server.name);
      // Over HTTP a server may turn out to speak another era than it did; a process is what it was when it started.
      if (verdict === 'modern' && server.kind === 'stdio')
        return native(session, current(session, server)).request(call);
      if (verdict === 'handshake') return bridged(session, current(session, server), call).request(call);
      return findingOut(session, server, call);
    },

    notifyModern(session, server, call) {
      if (verdicts.get(server.name) !== 'handshake') native(session, current(session, server)).notify(call);
    },

    async handshake(session, asked, call) {
      const server = current(session, asked);
      if (server.era === 'modern') return translated(session, server, call);
      const { key, shared } = sharedFor(session, server, call);
      // However many clients come at once, the process is shaken hands with once.
      while (shared.shaking !== undefined) await shared.shaking.catch(() => {});
      const asking = shared.link.request(call);
      shared.shaking = asking;
      let reply: Reply;
      try {
        reply = await asking;
      } catch (error) {
        discard(session.id, key, shared);
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
      discard(session.id, key, shared);
      if (answer !== undefined && knowsNoHandshake(answer)) return translated(session, server, call);
      return { reply, link: shared.link, version };
    },

    of: (sessionId, server) =>
      [...(bySession.get(sessionId)?.values() ?? [])].map(({ link }) => link).filter((link) => link.server === server),

    retire(server, sessionId) {
      for (const entries of bySession.values()) {
        for (const [key, { link }] of entries) {
          if (link.server !== server || (sessionId !== undefined && link.sessionId !== sessionId)) continue;
          entries.delete(key);
          retired.set(link, Date.now() + drainMs);
        }
      }
    },

    isRetired: (link) => retired.has(link) || link.isClosed(),

    async endSession(sessionId, reason, server) {
      const concerned = (link: Link) => server === undefined || link.server === server;
      const entries = [...(bySession.get(sessionId) ?? [])].filter(([, { link }]) => concerned(link));
      for (const [key] of entries) bySession.get(sessionId)?.delete(key);
      if (server === undefined) bySession.delete(sessionId);
      const old = [...retired.keys()].filter((link) => link.sessionId === sessionId && concerned(link));
      for (const link of old) retired.delete(link);
      const all = [...entries.map(([, { link }]) => link), ...old];
      await Promise.all(all.map((link) => link.close(reason)));
    },

    async close() {
      clearInterval(timer);
      const reason = new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' });
      const all = [...bySession.values()].flatMap((entries) => [...entries.values()].map(({ link }) => link));
      await Promise.all([...all, ...retired.keys()].map((link) => link.close(reason)));
      bySession.clear();
      retired.clear();
    },
  };
}
