import type { AuthorizationServer, Client, ClientAuth, TokenEndpointResponse } from 'oauth4webapi';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { parseScopes } from './discovery.ts';
import { type GuardedFetch, NoAnswerError } from './guarded-fetch.ts';
import type { KnownIssuer, LoginClient, LoginSecrets } from './login.ts';
import type { LoginAttempt } from './login-attempts.ts';

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
