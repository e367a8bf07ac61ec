import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { HttpServer, ServerDefinition } from '../definition.ts';
import type { AuthRefusal } from '../links/http/send-request.ts';
import type { Approvals } from '../pins/approvals.ts';
import { readChallenge } from './authorization-server.ts';
import { type CredentialAdmin, createCredentialAdmin, openConfiguredCredentials } from './credential-admin.ts';
import { isForOneUser } from './credential-target.ts';
import { type CredentialAuth, createCredentialAuth } from './credentials.ts';
import { createLoginAdmin, type LoginAdmin, openConfiguredLogins } from './login-admin.ts';
import type { Logins } from './logins.ts';
import type { MatchesUser } from './sealed-documents.ts';

type HeaderValues = Readonly<Record<string, string>>;

/** Adds the auth of a session's user to requests over HTTP: a credential, else the token of a login. */
interface UserAuth extends Omit<CredentialAuth, 'headers'> {
  headers(session: Session, server: HttpServer): HeaderValues | Promise<HeaderValues>;
  /** Handles a refused request: true when there is a new token; throws LOGIN_REQUIRED when only the user can help. */
  handleRefusal(session: Session, server: HttpServer, refusal: AuthRefusal): Promise<boolean>;
}

const authorizationHeader = 'authorization';

/** The auth of users at upstreams: credentials that were set, and logins. */
export interface UpstreamAuth {
  readonly authFor: UserAuth;
  readonly credentials: CredentialAdmin;
  readonly logins: LoginAdmin;
  /** Reports auth that was replaced or removed. The change waits for the listener. */
  onChange(listener: (server: string, concerns: MatchesUser) => Promise<void>): void;
  /** Removes all auth of a user: a later user of the same name is another person. */
  removeAllOf(userId: string): Promise<void>;
  close(): void;
}

interface UpstreamAuthOptions {
  /** False where no server gets credentials or logins. */
  readonly isEnabled: boolean;
  readonly store: SessionStore;
  /** The configuration as it is now, which a reload replaces. */
  readonly settings: { config(): Config; servers(): ReadonlyMap<string, ServerDefinition> };
  readonly dataDir: string;
  readonly journal: Journal;
  readonly approvals: Approvals;
}

export async function openUpstreamAuth(options: UpstreamAuthOptions): Promise<UpstreamAuth> {
  const { isEnabled, store, settings, dataDir, journal, approvals } = options;
  const { servers } = settings;
  const first = settings.config();
  const credentials = isEnabled ? await openConfiguredCredentials(store, first, dataDir) : undefined;
  const logins = isEnabled ? await openConfiguredLogins(store, first, dataDir, { journal, servers }) : undefined;
  const prefixes = () => settings.config().context.envPrefixes;
  const isApproved = (server: ServerDefinition) => approvals.check(server).state === 'approved';
  const publicUrl = () => settings.config().listen.publicUrl?.replace(/\/$/, '');
  const credentialAdmin = createCredentialAdmin({ credentials, servers, prefixes, journal });
  const loginAdmin = createLoginAdmin({ logins, servers, publicUrl, isApproved });
  const credentialAuth = createCredentialAuth({ credentials, prefixes, isApproved });
  return {
    authFor: createUserAuth(credentialAuth, logins, isApproved, publicUrl),
    credentials: credentialAdmin,
    logins: loginAdmin,
    onChange(listener) {
      for (const store of [credentials, logins]) store?.onChange((concerns, server) => listener(server, concerns));
    },
    async removeAllOf(userId) {
      if (!isEnabled) return;
      const isOf = (each: { readonly userId: string }) => each.userId === userId;
      for (const each of credentialAdmin.list().filter(isOf)) await credentialAdmin.remove(each);
      for (const each of loginAdmin.list().filter(isOf)) await loginAdmin.remove(each);
    },
    close() {
      credentials?.close();
      logins?.close();
    },
  };
}

function createUserAuth(
  credentialAuth: CredentialAuth,
  logins: Logins | undefined,
  isApproved: (server: ServerDefinition) => boolean,
  publicUrl: () => string | undefined,
): UserAuth {
  /** The logins, where this server may get that of the user. */
  function loginsFor({ userId }: Session, server: ServerDefinition): Logins | undefined {
    if (logins === undefined || userId === anonymousUser || server.kind !== 'http' || !isForOneUser(server)) {
      return undefined;
    }
    return isApproved(server) ? logins : undefined;
  }

  async function loginRequiredError({ userId }: Session, server: HttpServer, why: string): Promise<AmbitError> {
    const base = publicUrl();
    // A browser needs an address of Ambit to log in at.
    const link = base === undefined ? undefined : `${base}/login/${await logins?.tickets.make(userId, server.name)}`;
    const command = `ambit login ${server.name} --user ${quoteForShell(userId)}`;
    return new AmbitError('LOGIN_REQUIRED', {
      ...(link === undefined ? {} : { link }),
      what: `The server "${server.name}" ${why}.`,
      hint:
        link === undefined
          ? `Ask the user to run this command, then try again: ${command}`
          : `Ask the user to open this link in a browser, then try again: ${link}`,
    });
  }

  return {
    ...credentialAuth,
    headers(session, server) {
      const given = credentialAuth.headers(session, server);
      if (given[authorizationHeader] !== undefined) return given;
      const token = loginsFor(session, server)?.findToken(session.userId, server);
      const joined = (found: string | undefined): HeaderValues =>
        found === undefined ? given : { ...given, [authorizationHeader]: `Bearer ${found}` };
      return token instanceof Promise ? token.then(joined) : joined(token);
    },

    hasAny: (session, server) =>
      credentialAuth.hasAny(session, server) || loginsFor(session, server)?.has(session.userId, server.name) === true,

    revision(session, server) {
      const given = credentialAuth.revision(session, server);
      const login = loginsFor(session, server)?.revision(session.userId, server.name) ?? '';
      return login === '' ? given : JSON.stringify([given, session.userId, login]);
    },

    async handleRefusal(session, server, { status, challenge: text, authHeaders }) {
      const userLogins = loginsFor(session, server);
      if (userLogins === undefined || credentialAuth.headers(session, server)[authorizationHeader] !== undefined)
        return false;
      const challenge = readChallenge(text);
      const token = authHeaders[authorizationHeader]?.replace(/^Bearer /, '');
      if (status === 403) {
        if (challenge?.error !== 'insufficient_scope' || token === undefined) return false;
        await userLogins.addWantedScopes(session.userId, server.name, challenge.scopes);
        // The page of the authorization server shows the scopes. The server's words would read like Ambit's own here.
        throw await loginRequiredError(session, server, 'requires more permissions than the user has granted');
      }
      if (token === undefined) {
        const isFixed = Object.keys(server.headers).some((name) => name.toLowerCase() === authorizationHeader);
        // A server that does not ask for a bearer token may want something that no login brings.
        if (isFixed || (challenge === undefined && server.oauth === undefined)) return false;
        throw await loginRequiredError(session, server, 'requires the user to log in');
      }
      if ((await userLogins.replaceToken(session.userId, server, token, challenge)) !== undefined) return true;
      throw await loginRequiredError(session, server, 'no longer accepts the login of the user');
    },
  };
}

function quoteForShell(text: string): string {
  return /^[\w@.+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
