import type { AuthorizationServer, Client, ClientAuth, TokenEndpointResponse } from 'oauth4webapi';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { type GuardedFetch, NoAnswerError } from './guarded-fetch.ts';
import type { KnownIssuer, LoginAttempt, LoginClient, LoginSecrets, LoginServer } from './login.ts';

/** The login that a server asks for in `WWW-Authenticate` (RFC 6750, RFC 9728). */
export interface Challenge {
  readonly resourceMetadata?: string;
  readonly scopes: readonly string[];
  readonly error?: string;
}

const maxHeaderLength = 8192;

const parameter = /([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gy;

const scopeToken = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/;

/** The metadata of a server (RFC 9728), or the defaults for a server that has none. */
interface ProtectedResource {
  /** The resource that tokens are made for (RFC 8707). */
  readonly resource: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
}

/**
 * Discovers the authorization server. If the operator names the issuer, all endpoints come from its metadata. Else the
 * server names it, and could name an attacker who shows an honest login page and keeps the code. So the page must be at
 * the issuer's own origin.
 */
export async function discoverLogin(
  { name, url, oauth }: LoginServer,
  challenge: Challenge | undefined,
  fetch: GuardedFetch,
): Promise<Omit<ProtectedResource, 'issuer'> & { readonly as: AuthorizationServer }> {
  const { issuer: named, ...resource } = await discoverResource(url, challenge, fetch);
  const issuer = oauth?.issuer ?? named;
  const as = await discoverIssuer(issuer, fetch);
  if (as.code_challenge_methods_supported?.includes('S256') !== true) {
    throw loginFailedError(`The authorization server ${issuer} does not announce support for PKCE with S256.`);
  }
  if (oauth?.issuer === undefined && originOf(as.authorization_endpoint) !== originOf(as.issuer)) {
    throw loginFailedError(
      `The login page of the authorization server ${issuer} is on another host.`,
      `If that is correct, set servers.${name}.oauth.issuer to the authorization server.`,
    );
  }
  return { ...resource, as };
}

function originOf(address: string | undefined): string | undefined {
  return address !== undefined && URL.canParse(address) ? new URL(address).origin : undefined;
}

export async function discoverResource(
  server: URL,
  challenge: Challenge | undefined,
  fetch: GuardedFetch,
): Promise<ProtectedResource> {
  const path = server.pathname === '/' ? '' : server.pathname.replace(/\/$/, '');
  const wellKnown = '/.well-known/oauth-protected-resource';
  const addresses = [
    ...(challenge?.resourceMetadata === undefined ? [] : [challenge.resourceMetadata]),
    new URL(wellKnown + path, server).href,
    ...(path === '' ? [] : [new URL(wellKnown, server).href]),
  ];
  for (const candidate of addresses) {
    const found = URL.canParse(candidate) ? await fetchJson(candidate, fetch) : undefined;
    if (found === undefined) continue;
    const { resource, authorization_servers: issuers, scopes_supported: scopes } = found;
    if (typeof resource !== 'string' || !coversServer(resource, server)) {
      throw loginFailedError(
        'The resource metadata of the server names another server, so Ambit does not request a token.',
      );
    }
    const [issuer] = Array.isArray(issuers) ? issuers.filter((each) => typeof each === 'string') : [];
    if (issuer === undefined || !URL.canParse(issuer))
      throw loginFailedError('The server does not name an authorization server.');
    return { resource, issuer, scopes: readStrings(scopes) };
  }
  // Servers of earlier revisions share their origin with the authorization server.
  return { resource: server.href, issuer: server.origin, scopes: [] };
}

/** Tries RFC 8414 first, then OpenID Connect. The answer must name the same issuer. */
async function discoverIssuer(issuer: string, fetch: GuardedFetch): Promise<AuthorizationServer> {
  const url = new URL(issuer);
  const path = url.pathname === '/' ? '' : url.pathname.replace(/\/$/, '');
  const paths = [
    `/.well-known/oauth-authorization-server${path}`,
    `/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${path}/.well-known/openid-configuration`]),
  ];
  for (const wellKnown of paths) {
    const found = await fetchJson(new URL(wellKnown, url).href, fetch);
    if (found === undefined) continue;
    const said = found['issuer'];
    // Some issuers add a slash to their address in one place only.
    const same = typeof said === 'string' && (said === issuer || said === `${issuer}/` || `${said}/` === issuer);
    if (!same) throw loginFailedError(`The metadata of ${issuer} names another issuer.`);
    return found as unknown as AuthorizationServer;
  }
  throw loginFailedError(`The authorization server ${issuer} has no metadata.`);
}

/** Fetches a JSON object; undefined where there is none. */
async function fetchJson(address: string, fetch: GuardedFetch): Promise<Record<string, unknown> | undefined> {
  const response = await fetch(address, { method: 'GET', headers: { accept: 'application/json' } }).catch((error) => {
    if (error instanceof NoAnswerError)
      throw loginFailedError(`${new URL(address).host} does not answer: ${error.message}.`);
    throw error;
  });
  if (response.status >= 500) throw loginFailedError(`${new URL(address).host} failed with status ${response.status}.`);
  if (response.status !== 200) return undefined;
  const value = await response.json().catch(() => undefined);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}

/** True when the server's address is at or below the resource. */
function coversServer(resource: string, server: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const { origin, pathname } = new URL(resource);
  if (origin !== server.origin) return false;
  const withSlash = (path: string) => (path.endsWith('/') ? path : `${path}/`);
  return withSlash(server.pathname).startsWith(withSlash(pathname));
}

function readStrings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string').slice(0, 100) : [];
}

function loginFailedError(what: string, hint?: string): AmbitError {
  return new AmbitError('LOGIN_FAILED', { what, ...(hint === undefined ? {} : { hint }) });
}

/** Reads the challenge; undefined where no bearer token is asked for. */
export function readChallenge(header: string | undefined): Challenge | undefined {
  if (header === undefined || header.length > maxHeaderLength) return undefined;
  const start = /(?:^|,)\s*bearer(?=[\s,]|$)/i.exec(header);
  if (start === null) return undefined;
  const found = new Map<string, string>();
  let at = start.index + start[0].length;
  for (;;) {
    while (at < header.length && /[\s,]/.test(header[at] as string)) at++;
    parameter.lastIndex = at;
    const match = parameter.exec(header);
    // Another scheme begins where no parameter does.
    if (match === null) break;
    const [whole, name = '', quoted, plain = ''] = match;
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted?.replace(/\\(.)/g, '$1') ?? plain);
    at += whole.length;
  }
  const [resourceMetadata, error] = [found.get('resource_metadata'), found.get('error')];
  return {
    scopes: parseScopes(found.get('scope')),
    ...(resourceMetadata === undefined ? {} : { resourceMetadata }),
    ...(error === undefined ? {} : { error }),
  };
}

function parseScopes(text: string | undefined): readonly string[] {
  const words = (text ?? '').split(' ').filter((word) => scopeToken.test(word));
  return [...new Set(words)].slice(0, 100);
}

/** Loads the library with the first login, not with the gateway. */
export const loadOauth = () => import('oauth4webapi');
type Oauth = Awaited<ReturnType<typeof loadOauth>>;

export interface TokenGrant {
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly expiresAt?: number;
  /** Undefined where the scopes are those that were asked for. */
  readonly scopes?: readonly string[];
}

type TokenParties = Pick<LoginSecrets, 'as' | 'client' | 'resource'>;

/** A failed renewal. Only `later` means that the refresh token was certainly not used. */
export class RenewalError extends Error {
  readonly how: 'refused' | 'later' | 'unknown';

  constructor(how: 'refused' | 'later' | 'unknown', why: string) {
    super(why);
    this.name = 'RenewalError';
    this.how = how;
  }
}

/** Checks the issuer of the answer (`state`, `iss`) and redeems the code. */
export async function redeemCode(
  { as, client, resource }: TokenParties,
  given: Pick<LoginAttempt, 'verifier' | 'redirectUri'> & {
    readonly callback: URLSearchParams;
    readonly state: string;
  },
  fetch: GuardedFetch,
): Promise<TokenGrant> {
  const oauth = await loadOauth();
  const [server, us, how] = toOauthParties(oauth, as, client);
  try {
    const checked = oauth.validateAuthResponse(server, us, given.callback, given.state);
    const { redirectUri, verifier } = given;
    const options = { ...requestOptions(oauth, fetch), additionalParameters: { resource } };
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      us,
      how,
      checked,
      redirectUri,
      verifier,
      options,
    );
    return readGrant(await oauth.processAuthorizationCodeResponse(server, us, response));
  } catch (error) {
    if (isAmbitError(error)) throw error;
    throw new AmbitError('LOGIN_FAILED', {
      what: `The login was not completed: ${describeOauthError(error)}.`,
      cause: error,
    });
  }
}

export async function renewToken(
  { as, client, resource }: TokenParties,
  refreshToken: string,
  fetch: GuardedFetch,
): Promise<TokenGrant> {
  const oauth = await loadOauth();
  const [server, us, how] = toOauthParties(oauth, as, client);
  let response: Response;
  try {
    response = await oauth.refreshTokenGrantRequest(server, us, how, refreshToken, {
      ...requestOptions(oauth, fetch),
      additionalParameters: { resource },
    });
  } catch (error) {
    const unsent = isAmbitError(error) || (error instanceof NoAnswerError && !error.sent);
    throw new RenewalError(unsent ? 'later' : 'unknown', (error as Error).message);
  }
  // A server sends these before it uses the token. The other codes may come from a proxy.
  if ([429, 500, 503].includes(response.status)) throw new RenewalError('later', `status ${response.status}`);
  if (response.status >= 500) throw new RenewalError('unknown', `status ${response.status}`);
  try {
    return readGrant(await oauth.processRefreshTokenResponse(server, us, response));
  } catch (error) {
    throw new RenewalError('refused', describeOauthError(error));
  }
}

/** Revokes a token at the authorization server. A failure does not keep the login alive. */
export async function revokeToken(
  { as, client }: TokenParties,
  token: string,
  hint: 'refresh_token' | 'access_token',
  fetch: GuardedFetch,
): Promise<boolean> {
  if (as.revocation_endpoint === undefined) return false;
  const oauth = await loadOauth();
  const [server, us, how] = toOauthParties(oauth, as, client);
  try {
    const options = { ...requestOptions(oauth, fetch), additionalParameters: { token_type_hint: hint } };
    await oauth.processRevocationResponse(await oauth.revocationRequest(server, us, how, token, options));
    return true;
  } catch {
    return false;
  }
}

function toOauthParties(oauth: Oauth, as: KnownIssuer, client: LoginClient): [AuthorizationServer, Client, ClientAuth] {
  const secret = client.clientSecret ?? '';
  const how =
    client.method === 'none'
      ? oauth.None()
      : client.method === 'client_secret_post'
        ? oauth.ClientSecretPost(secret)
        : oauth.ClientSecretBasic(secret);
  return [as as AuthorizationServer, { client_id: client.clientId }, how];
}

/** The options of the OAuth library. The guarded fetch decides which addresses are allowed, plain HTTP included. */
export function requestOptions(oauth: Oauth, fetch: GuardedFetch) {
  const asked = (url: string, init: { method: string; headers: Record<string, string>; body?: unknown }) =>
    fetch(url, init);
  return { [oauth.customFetch]: asked, [oauth.allowInsecureRequests]: true };
}

/** The longest lifetime of a token that is believed: ten years. */
const maxLifetimeSeconds = 10 * 365 * 86_400;

function readGrant(answer: TokenEndpointResponse): TokenGrant {
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds, scope } = answer;
  if (answer.token_type !== 'bearer') throw new Error('the token type is not "bearer"');
  if (!/^[\x21-\x7e]{1,8000}$/.test(accessToken)) throw new Error('the token cannot be sent in a header');
  return {
    accessToken,
    ...(refreshToken === undefined ? {} : { refreshToken }),
    ...(seconds === undefined
      ? {}
      : { expiresAt: Date.now() + Math.min(Math.max(0, seconds), maxLifetimeSeconds) * 1000 }),
    ...(typeof scope === 'string' ? { scopes: parseScopes(scope) } : {}),
  };
}

/** Describes an error by its OAuth code. Texts of the authorization server are not repeated. */
function describeOauthError(error: unknown): string {
  const { error: word, message } = error as { error?: unknown; message?: string };
  if (typeof word === 'string' && /^[\w.-]{1,60}$/.test(word)) return word;
  return typeof message === 'string' ? message.replace(/"response" |"parameters" /g, '') : 'no reason was given';
}
