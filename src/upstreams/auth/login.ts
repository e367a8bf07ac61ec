import type { AuthorizationServer } from 'oauth4webapi';
import type { HttpServer } from '../definition.ts';
import { credentialKeyPrefix } from './credential-target.ts';
import { openSecrets, readSealedFacts, type SealedFacts, type SealingKey, sealFacts } from './seal.ts';

export const loginsCollection = 'logins';

/** The part of a server that a login needs. */
export type LoginServer = Pick<HttpServer, 'name' | 'url' | 'oauth'>;

/** True when the operator allows logins to the server at this authorization server. */
export function isAllowedIssuer({ oauth }: Pick<LoginServer, 'oauth'>, issuer: string): boolean {
  return oauth?.issuer === undefined || trimSlash(oauth.issuer) === trimSlash(issuer);
}

/** Removes the final slash, which some issuers add in one place only. */
function trimSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}

/** Ambit as a client of an authorization server. */
export interface LoginClient {
  readonly clientId: string;
  readonly clientSecret?: string;
  readonly method: 'none' | 'client_secret_basic' | 'client_secret_post';
}

/** The metadata of an authorization server that is stored with a login and does not change later. */
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
  /** Changes with every login and stays the same through its renewals. */
  readonly id: string;
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
  /** The scopes that the server has asked for since. */
  readonly wanted: readonly string[];
  readonly state: 'active' | 'lost';
  readonly why?: string;
  readonly madeAt: number;
  readonly renewedAt: number;
  /** Undefined where the authorization server gives no time. */
  readonly expiresAt?: number;
  /** True when each refresh token works once; undefined until the first renewal. */
  readonly rotates?: boolean;
  /** The process that renews the login, and the time until which others wait for it. */
  readonly lease?: { readonly by: string; readonly until: number };
  /** The time of the next try, after an authorization server that did not answer. */
  readonly retryAt?: number;
}

export interface LoginSecrets {
  /** The server's address when the token was made. The token is sent to no other address. */
  readonly url: string;
  readonly resource: string;
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly client: LoginClient;
  readonly as: KnownIssuer;
}

export type SealedLogin = SealedFacts<LoginFacts>;

export interface Login extends LoginFacts, LoginSecrets {}

export function loginKey(userId: string, server: string): string {
  return `${credentialKeyPrefix(userId, server)}login`;
}

export function sealLogin(facts: LoginFacts, secrets: LoginSecrets, key: SealingKey): SealedLogin {
  return sealFacts(facts, secrets, key, bindingFor(facts));
}

/** Opens a login; undefined when the current key cannot open it. */
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

/** A login without its secrets. */
export interface LoginView extends Pick<LoginFacts, 'userId' | 'server' | 'issuer' | 'scopes' | 'why'> {
  /** "lost" when the user has to log in again; "wanted" when the server wants more scopes than were granted. */
  readonly state: 'active' | 'lost' | 'wanted';
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
