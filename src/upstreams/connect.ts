import type { Config } from '../config/schema.ts';
import type { ContextWriters } from '../context/call-context.ts';
import { AmbitError } from '../errors.ts';
import type { Journal } from '../journal/journal.ts';
import type { Runners } from '../runners/runner.ts';
import type { Session } from '../sessions/session.ts';
import type { Era } from '../wire/channel.ts';
import { audienceOf, type HttpServer, type ServerDefinition, type StdioServer } from './definition.ts';
import { createHttpLink, type HttpManner } from './http/http-link.ts';
import { connectTo, type Remote } from './http/send.ts';
import type { BaseLink } from './link.ts';
import type { Seals } from './relay/seals.ts';
import { createTeller, silentTeller, type Teller } from './relay/teller.ts';
import type { Binding } from './relay/towards-upstream.ts';
import type { Outward } from './sent.ts';
import type { Opening } from './stdio/opening.ts';
import type { PreparedLaunch } from './stdio/server-process.ts';
import { createStdioLink } from './stdio/stdio-link.ts';

export interface ConnectOptions {
  readonly config: () => Config;
  readonly tmpRoot: string;
  readonly runners: Runners;
  readonly journal: Journal;
  readonly seals: Seals;
  /** Undefined where a server is only looked at, for no session. */
  readonly contexts: ContextWriters | undefined;
  /** Throws when a server is not approved as it stands: asked before a link is made, and before each start. */
  readonly assertApproved: (server: ServerDefinition) => void;
  /** The session as it is now, if it may use the server; throws when it may not, or has ended. */
  readonly admit: (session: Session, server: ServerDefinition) => Session;
  /** Asked before each start; throws as `admit` does. */
  readonly launch: (session: Session, server: StdioServer) => PreparedLaunch;
}

/** Makes the links that speak to an upstream themselves, for one session each. */
export interface Connect {
  binding(session: Session, server: string): Binding;
  stdio(session: Session, server: StdioServer, era: Era, opening: Opening, hear: Outward): BaseLink;
  http(session: Session, server: HttpServer, mannerOf: (remote: Remote) => HttpManner, hear: Outward): BaseLink;
}

export function createConnect(options: ConnectOptions): Connect {
  const { journal } = options;
  const binding = (session: Session, server: string, teller = silentTeller) => ({
    seals: options.seals,
    sessionId: session.id,
    server,
    teller,
  });

  function tellerFor(session: Session, server: ServerDefinition): Teller {
    const writer = server.context === 'none' ? undefined : options.contexts?.for(audienceOf(server), server.context);
    return createTeller(writer, () => options.admit(session, server));
  }

  return {
    binding,

    stdio(session, server, era, opening, hear) {
      options.assertApproved(server);
      options.admit(session, server);
      const config = options.config();
      return createStdioLink({
        server,
        era,
        opening,
        outward: hear,
        binding: binding(session, server.name, tellerFor(session, server)),
        limits: config.limits,
        lifetimes: {
          startMs: config.processes.startSeconds * 1000,
          idleMs: config.processes.idleSeconds * 1000,
          maxMs: config.processes.maxSeconds * 1000,
        },
        place: {
          runners: options.runners,
          tmpRoot: options.tmpRoot,
          journal,
          sessionId: session.id,
          messageBytes: config.limits.messageBytes,
          prepare: () => options.launch(session, server),
          mayStart: (prepared) => {
            options.assertApproved(server);
            assertFits(options.admit(session, server), prepared, server);
          },
        },
      });
    },

    http(session, server, mannerOf, hear) {
      options.assertApproved(server);
      options.admit(session, server);
      const { limits } = options.config();
      const teller = tellerFor(session, server);
      const remote = connectTo(server, teller);
      return createHttpLink({
        server: remote,
        sessionId: session.id,
        manner: mannerOf(remote),
        binding: binding(session, server.name, teller),
        outward: hear,
        limits,
      });
    },
  };
}

/** The session may have been sandboxed while its process was being prepared as that of a direct one. */
function assertFits({ trustLevel }: Session, { confinement }: PreparedLaunch, { name }: StdioServer): void {
  if ((trustLevel === 'direct') === (confinement === undefined)) return;
  throw new AmbitError('UPSTREAM_FAILED', {
    what: `The session was restricted while the server "${name}" was starting.`,
    rule: 'trust',
  });
}
