import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Journal } from '../journal/journal.ts';
import type { Runner } from '../runners/runner.ts';
import type { Session } from '../sessions/session.ts';
import type { Outward } from '../upstreams/sent.ts';
import type { Reply } from '../wire/channel.ts';
import { readMessage } from '../wire/message.ts';
import type { HttpServer, ServerDefinition, StdioServer } from './definition.ts';
import type { EraVerdicts } from './era-verdicts.ts';
import { handshakeKey, unsupportedHandshake } from './handshake.ts';
import { handshakeManner } from './http/handshake-manner.ts';
import { createHttpLink, type HttpManner } from './http/http-link.ts';
import { modernManner } from './http/modern-manner.ts';
import { connectTo, type Remote } from './http/send.ts';
import type { Call, Link } from './link.ts';
import type { Seals } from './relay/seals.ts';
import { type HandshakeOpening, handshakeOpening, modernOpening, type Opening } from './stdio/opening.ts';
import { createStdioLink } from './stdio/stdio-link.ts';

export interface LinksOptions {
  readonly config: Config;
  readonly dataDir: string;
  readonly tmpRoot: string;
  readonly runner: Runner;
  readonly journal: Journal;
  readonly seals: Seals;
  readonly verdicts: EraVerdicts;
  readonly outward: Outward;
}

export interface Opened {
  readonly reply: Reply;
  readonly link: Link;
  /** Undefined when the upstream refused the handshake. */
  readonly version: string | undefined;
}

export interface Links {
  modern(session: Session, server: ServerDefinition): Link;
  /** Answers an `initialize`: by a handshake with the upstream, or from the first one with equal capabilities. */
  handshake(session: Session, server: ServerDefinition, call: Call): Promise<Opened>;
  of(sessionId: string, server: string): Link[];
  endSession(sessionId: string, reason: AmbitError): Promise<void>;
  close(): Promise<void>;
  readonly size: number;
}

interface Shared {
  readonly link: Link;
  readonly opening: HandshakeOpening | undefined;
  shaking: Promise<unknown> | undefined;
}

const tendEveryMs = 1000;
/** Processes of one server in one session: those kept for clients that may come back, and all of them. */
const spareProcesses = 8;
const mostProcesses = 80;

/** The live connections to upstreams, each belonging to exactly one session. */
export function createLinks(options: LinksOptions): Links {
  const { config, verdicts, outward, journal } = options;
  const bySession = new Map<string, Map<string, Shared>>();

  function entriesOf(sessionId: string): Map<string, Shared> {
    const known = bySession.get(sessionId);
    if (known !== undefined) return known;
    const fresh = new Map<string, Shared>();
    bySession.set(sessionId, fresh);
    return fresh;
  }

  function stdioLink(session: Session, server: StdioServer, era: Link['era'], opening: Opening): Link {
    if (session.trustLevel !== 'direct') {
      throw new AmbitError('SANDBOX_UNAVAILABLE', {
        what: `The session is sandboxed, and no sandbox can be had for the server "${server.name}" here.`,
        rule: 'trust',
      });
    }
    const workspace = session.workspaceId === undefined ? undefined : config.workspaces[session.workspaceId];
    return createStdioLink({
      server,
      era,
      opening,
      outward,
      binding: { seals: options.seals, sessionId: session.id, server: server.name },
      limits: config.limits,
      lifetimes: {
        startMs: config.processes.startSeconds * 1000,
        idleMs: config.processes.idleSeconds * 1000,
        maxMs: config.processes.maxSeconds * 1000,
      },
      place: {
        runner: options.runner,
        tmpRoot: options.tmpRoot,
        cwd: workspace?.path ?? join(options.dataDir, 'run', session.id),
        journal,
        sessionId: session.id,
        messageBytes: config.limits.messageBytes,
      },
    });
  }

  function httpLink(session: Session, server: HttpServer, mannerOf: (remote: Remote) => HttpManner): Link {
    const binding = { seals: options.seals, sessionId: session.id, server: server.name };
    const remote = connectTo(server);
    const manner = mannerOf(remote);
    return createHttpLink({ server: remote, sessionId: session.id, manner, binding, outward, limits: config.limits });
  }

  function sharedFor(session: Session, server: ServerDefinition, call: Call): { key: string; shared: Shared } {
    const entries = entriesOf(session.id);
    if (server.kind === 'http') {
      // Over HTTP each client has a session of the upstream's own: nothing is shared.
      const link = httpLink(session, server, (remote) => handshakeManner(remote, config.limits.messageBytes));
      const key = `${server.name} handshake http ${entries.size} ${Math.random()}`;
      const shared = { link, opening: undefined, shaking: undefined };
      entries.set(key, shared);
      return { key, shared };
    }
    const key = `${server.name} handshake ${handshakeKey(call.message)}`;
    const known = entries.get(key);
    if (known !== undefined && !known.link.closed) return { key, shared: known };
    makeRoom(session.id, server.name);
    const opening = handshakeOpening();
    const shared = { link: stdioLink(session, server, 'handshake', opening), opening, shaking: undefined };
    entries.set(key, shared);
    return { key, shared };
  }

  /** A client that declares other capabilities with every handshake must not get process after process. */
  function makeRoom(sessionId: string, server: string): void {
    const siblings = [...entriesOf(sessionId)].filter(([, { link, opening }]) => opening && link.server === server);
    if (siblings.length < spareProcesses) return;
    const deserted = siblings.find(([, { link, shaking }]) => link.attached === 0 && shaking === undefined);
    if (deserted !== undefined) discard(sessionId, ...deserted);
    else if (siblings.length >= mostProcesses) throw new AmbitError('OVERLOADED');
  }

  const timer = setInterval(() => {
    const now = Date.now();
    for (const entries of bySession.values()) {
      for (const [key, { link }] of entries) {
        if (link.closed) entries.delete(key);
        else link.tend(now);
      }
    }
  }, tendEveryMs).unref();

  return {
    get size() {
      let total = 0;
      for (const entries of bySession.values()) total += entries.size;
      return total;
    },

    modern(session, server) {
      const entries = entriesOf(session.id);
      const key = `${server.name} modern`;
      const known = entries.get(key);
      if (known !== undefined && !known.link.closed) return known.link;
      const link =
        server.kind === 'stdio'
          ? stdioLink(session, server, 'modern', modernOpening(server.name, verdicts))
          : httpLink(session, server, (remote) => modernManner(remote, verdicts, config.limits.messageBytes));
      entries.set(key, { link, opening: undefined, shaking: undefined });
      return link;
    },

    async handshake(session, server, call) {
      if (server.era === 'modern') throw unsupportedHandshake(call.message);
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
      const refusal = answer === undefined ? undefined : unsupportedHandshake(call.message, answer);
      if (refusal !== undefined) throw refusal;
      return { reply, link: shared.link, version };
    },

    of: (sessionId, server) =>
      [...(bySession.get(sessionId)?.values() ?? [])].map(({ link }) => link).filter((link) => link.server === server),

    async endSession(sessionId, reason) {
      const entries = bySession.get(sessionId);
      bySession.delete(sessionId);
      await Promise.all([...(entries?.values() ?? [])].map(({ link }) => link.close(reason)));
    },

    async close() {
      clearInterval(timer);
      const reason = new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' });
      await Promise.all(
        [...bySession.values()].flatMap((entries) => [...entries.values()].map(({ link }) => link.close(reason))),
      );
      bySession.clear();
    },
  };

  function discard(sessionId: string, key: string, shared: Shared): void {
    bySession.get(sessionId)?.delete(key);
    void shared.link.close(new AmbitError('UPSTREAM_FAILED'));
  }
}
