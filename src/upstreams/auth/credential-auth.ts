import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerLaunch } from '../access/launch.ts';
import type { HttpServer, ServerDefinition, StdioServer } from '../definition.ts';
import { findNameProblem, isForOneUser } from './credential-target.ts';
import type { Credentials } from './credentials.ts';

type AuthValues = Readonly<Record<string, string>>;

/** Adds the credentials of a session's user to launches and requests. */
export interface CredentialAuth {
  /** Adds the credentials to a launch; they override configured variables of the same name. */
  addTo(launch: ServerLaunch, session: Session, server: StdioServer): ServerLaunch;
  /** Describes the launch for display: names the variables that are credentials, without their values. */
  describe(launch: ServerLaunch, session: Session, server: StdioServer): ServerLaunch;
  headers(session: Session, server: HttpServer): AuthValues;
  hasAny(session: Session, server: ServerDefinition): boolean;
  /** Differs between users and with every change; empty where the server gets no credential. */
  revision(session: Session, server: ServerDefinition): string;
}

interface CredentialAuthOptions {
  /** Undefined where no server gets credentials. */
  readonly credentials: Credentials | undefined;
  readonly prefixes: () => readonly string[];
  readonly isApproved: (server: ServerDefinition) => boolean;
}

export function createCredentialAuth({ credentials, prefixes, isApproved }: CredentialAuthOptions): CredentialAuth {
  /** The credentials, where this server may get those of the user. */
  function credentialsFor({ userId }: Session, server: ServerDefinition): Credentials | undefined {
    if (credentials === undefined || userId === anonymousUser || !isForOneUser(server)) return undefined;
    if (credentials.listTargets(userId, server.name).length === 0) return undefined;
    return isApproved(server) ? credentials : undefined;
  }

  function readValues(session: Session, server: ServerDefinition, kind: 'env' | 'header'): Record<string, string> {
    const values: Record<string, string> = {};
    for (const each of credentialsFor(session, server)?.read(session.userId, server.name) ?? []) {
      const why =
        each.kind === kind
          ? findNameProblem(kind, each.name, prefixes())
          : 'the server does not support this kind of credential';
      if (why !== undefined) {
        throw new AmbitError('CREDENTIAL_UNUSABLE', {
          what: `The credential ${each.name} for the server "${server.name}": ${why}.`,
        });
      }
      values[each.name] = each.value;
    }
    return values;
  }

  function listNames(session: Session, server: ServerDefinition): string[] {
    return (credentialsFor(session, server)?.listTargets(session.userId, server.name) ?? []).map(({ name }) => name);
  }

  return {
    addTo(launch, session, server) {
      const values = readValues(session, server, 'env');
      return Object.keys(values).length === 0
        ? launch
        : withCredentialOrigin(launch, { ...launch.env, ...values }, values);
    },
    describe(launch, session, server) {
      const own = listNames(session, server);
      if (own.length === 0) return launch;
      const shown = Object.entries(launch.env).filter(([name]) => !own.includes(name));
      return withCredentialOrigin(launch, Object.fromEntries(shown), Object.fromEntries(own.map((name) => [name, ''])));
    },
    headers: (session, server) => readValues(session, server, 'header'),
    hasAny: (session, server) => listNames(session, server).length > 0,
    revision(session, server) {
      const revision = credentialsFor(session, server)?.revision(session.userId, server.name);
      return revision === undefined ? '' : JSON.stringify([session.userId, revision]);
    },
  };
}

export const noCredentialAuth = createCredentialAuth({
  credentials: undefined,
  prefixes: () => [],
  isApproved: () => false,
});

function withCredentialOrigin(launch: ServerLaunch, env: AuthValues, credentials: AuthValues): ServerLaunch {
  const origins = Object.fromEntries(Object.keys(credentials).map((name) => [name, 'credential' as const]));
  return { ...launch, env, provenance: { ...launch.provenance, ...origins } };
}
