import type { AuthorizationServer } from 'oauth4webapi';
import { credentialKeyPrefix } from './credential-target.ts';
import { openSecrets, readSealedFacts, type SealedFacts, type SealingKey, sealFacts } from './seal.ts';
export const loginsCollection = 'logins';

/** As much of a server as a login to it needs. */
export interface LoginServer {
  readonly name: string;
  readonly url: URL;
  readonly oauth?:
    | {
        /** The only authorization server that users of it log in at. */
        readonly issuer?: string | undefined;
        readonly clientId?: string | undefined;
        readonly clientSecretFile?: string | undefined;
        readonly scopes?: readonly string[] | undefined;
        readonly hosts: readonly string[];
      }
    | undefined;
}

/** Whether users of the server may log in at this authorization server, by what the operator wrote. */
export function isAllowedIssuer({ oauth }: Pick<LoginServer, 'oauth'>, issuer: string): boolean {
  return oauth?.issuer === undefined || trimSlash(oauth.issuer) === trimSlash(issuer);
}

/** Some write their address with a slash at its end in one place and without in the other. */
function trimSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}

/** What Ambit is to an authorization server. */
export interface LoginClient {
  readonly clientId: string;
  readonly clientSecret?: string;
  readonly method: 'none' | 'client_secret_basic' | 'client_secret_post';
}

/** What is kept of an authorization server: fixed when the login starts, whatever it says of itself later. */
export type KnownIssuer = Pick<
  AuthorizationServer,
  | 'issuer'
  | 'authorization_endpoint'
  | 'token_endpoint'
  | 'revocation_endpoint'
  | 'authorization_response_iss_parameter_supported'
  | 'id_token_signing_alg_values_supported'
>;

export interface LoginFacts {
  /** Another with every login, the same through its renewals. */
  readonly id: string;
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
  /** What the server asked for beyond that, since. */
  readonly wanted: readonly string[];
  readonly state: 'active' | 'lost';
  readonly why?: string;
  readonly madeAt: number;
  readonly renewedAt: number;
  /** Undefined where the authorization server does not say. */
  readonly expiresAt?: number;
  /** Whether a refresh token is good for one use; undefined until there was one. */
  readonly rotates?: boolean;
  /** Who renews it, and until when others leave that to them. */
  readonly lease?: { readonly by: string; readonly until: number };
  /** Not to be renewed before: the last time nobody answered. */
  readonly retryAt?: number;
}

export interface LoginSecrets {
  /** The address the token was asked for. It goes nowhere else, whatever the server's name stands for later. */
  readonly url: string;
  readonly resource: string;
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly client: LoginClient;
  readonly as: KnownIssuer;
}

export type SealedLogin = SealedFacts<LoginFacts>;

export interface Login extends LoginFacts, LoginSecrets {}

export function loginPrefix(userId: string, server: string): string {
  return credentialKeyPrefix({ userId, server });
}

export function loginKey(userId: string, server: string): string {
  return `${loginPrefix(userId, server)}login`;
}

export function sealLogin(facts: LoginFacts, secrets: LoginSecrets, key: SealingKey): SealedLogin {
  return sealFacts(facts, secrets, key, bindingFor(facts));
}

/** Undefined when it cannot be opened with the key that is here. */
export function openLogin(sealed: SealedLogin, key: SealingKey | undefined): Login | undefined {
  const secrets = openSecrets<LoginSecrets>(sealed, key, bindingFor(sealed.facts));
  return secrets === undefined ? undefined : { ...sealed.facts, ...secrets };
}

export function readLogin(key: string, text: string): SealedLogin | undefined {
  return readSealedFacts<LoginFacts>(text, (facts) => {
    const { id, userId, server, issuer, scopes, wanted, state, madeAt, renewedAt } = facts;
    if (![id, userId, server, issuer].every((part) => typeof part === 'string')) return false;
    if (![madeAt, renewedAt].every((part) => typeof part === 'number')) return false;
    if (!Array.isArray(scopes) || !Array.isArray(wanted) || (state !== 'active' && state !== 'lost')) return false;
    return loginKey(userId as string, server as string) === key;
  });
}

function bindingFor({ id, userId, server, issuer }: LoginFacts): readonly (string | number)[] {
  return ['ambit login', 1, id, userId, server, issuer];
}

/** What may be shown of a login. */
export interface LoginView {
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
  /** "lost" when the user has to log in again; "wanted" when the server wants more than was agreed to. */
  readonly state: 'active' | 'lost' | 'wanted';
  readonly why?: string;
  readonly madeAt: string;
  readonly expiresAt?: string;
}

export function toLoginView(facts: LoginFacts): LoginView {
  const { userId, server, issuer, scopes, state, why, wanted, madeAt, expiresAt } = facts;
  return {
    userId,
    server,
    issuer,
    scopes,
    state: state === 'active' && wanted.length > 0 ? 'wanted' : state,
    ...(why === undefined ? {} : { why }),
    madeAt: new Date(madeAt).toISOString(),
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
  };
}
