import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { Launch } from '../access/launch.ts';
import type { HttpServer, ServerDefinition, StdioServer } from '../definition.ts';
import { isForOneUser, whyNotNamed } from './credential-target.ts';
import type { Credentials } from './credentials.ts';

type Values = Readonly<Record<string, string>>;

/** What servers are given on behalf of a session's user. */
export interface Carrying {
  /** The launch with the credentials in it; they outrank what is configured under the same name. */
  into(launch: Launch, session: Session, server: StdioServer): Launch;
  /** The launch as it may be shown: which variables are credentials, and none of their values. */
  named(launch: Launch, session: Session, server: StdioServer): Launch;
  headers(session: Session, server: HttpServer): Values;
  /** Whether any of the session's user goes to this server. */
  concerns(session: Session, server: ServerDefinition): boolean;
  /** Differs between users, and with every change, where a server is given any; else empty. */
  revision(session: Session, server: ServerDefinition): string;
}

export interface CarryingOptions {
  /** Undefined where none are given to anybody. */
  readonly credentials: Credentials | undefined;
  readonly prefixes: () => readonly string[];
  readonly isApproved: (server: ServerDefinition) => boolean;
}

export function createCarrying({ credentials, prefixes, isApproved }: CarryingOptions): Carrying {
  /** The user's credentials, where this server may be given any at all. */
  function keptFor({ userId }: Session, server: ServerDefinition): Credentials | undefined {
    if (credentials === undefined || userId === anonymousUser || !isForOneUser(server)) return undefined;
    if (credentials.placesOf(userId, server.name).length === 0) return undefined;
    return isApproved(server) ? credentials : undefined;
  }

  function given(session: Session, server: ServerDefinition, kind: 'env' | 'header'): Record<string, string> {
    const values: Record<string, string> = {};
    for (const each of keptFor(session, server)?.of(session.userId, server.name) ?? []) {
      const why = each.kind === kind ? whyNotNamed(kind, each.name, prefixes()) : 'the server takes none of this kind';
      if (why !== undefined) {
        throw new AmbitError('CREDENTIAL_UNUSABLE', {
          what: `The credential ${each.name} for the server "${server.name}": ${why}.`,
        });
      }
      values[each.name] = each.value;
    }
    return values;
  }

  function names(session: Session, server: ServerDefinition): string[] {
    return (keptFor(session, server)?.placesOf(session.userId, server.name) ?? []).map(({ name }) => name);
  }

  return {
    into(launch, session, server) {
      const values = given(session, server, 'env');
      return Object.keys(values).length === 0 ? launch : withOrigin(launch, { ...launch.env, ...values }, values);
    },
    named(launch, session, server) {
      const own = names(session, server);
      if (own.length === 0) return launch;
      const shown = Object.entries(launch.env).filter(([name]) => !own.includes(name));
      return withOrigin(launch, Object.fromEntries(shown), Object.fromEntries(own.map((name) => [name, ''])));
    },
    headers: (session, server) => given(session, server, 'header'),
    concerns: (session, server) => names(session, server).length > 0,
    revision(session, server) {
      const revision = keptFor(session, server)?.revision(session.userId, server.name);
      return revision === undefined ? '' : JSON.stringify([session.userId, revision]);
    },
  };
}

export const carryingNothing = createCarrying({
  credentials: undefined,
  prefixes: () => [],
  isApproved: () => false,
});

function withOrigin(launch: Launch, env: Values, credentials: Values): Launch {
  const origins = Object.fromEntries(Object.keys(credentials).map((name) => [name, 'credential' as const]));
  return { ...launch, env, provenance: { ...launch.provenance, ...origins } };
}
