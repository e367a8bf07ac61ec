import { randomUUID } from 'node:crypto';
import type { AuthorizationServer } from 'oauth4webapi';
import { AmbitError } from '../../errors.ts';
import { chooseClient, type ReturnTarget } from './choose-client.ts';
import { type Challenge, discoverLogin, readChallenge } from './discovery.ts';
import { createGuardedFetch, type GuardedFetch, type LoginHosts, NoAnswerError } from './guarded-fetch.ts';
import type { KnownIssuer, LoginFacts, LoginSecrets, LoginServer } from './login.ts';
import type { LoginAttempt } from './login-attempts.ts';
import { loadOauth, redeemCode } from './token-requests.ts';

interface LoginStartOptions {
  readonly userId: string;
  readonly server: LoginServer;
  readonly returnTarget: ReturnTarget;
  /** The scopes that the last login had or lacked. */
  readonly previousScopes: readonly string[];
  readonly loginHosts: LoginHosts;
}

/** Discovers where a user logs in to a server, and registers Ambit there if needed. */
export async function startLogin({ userId, server, returnTarget, previousScopes, loginHosts }: LoginStartOptions) {
  const fetch = createGuardedFetch(loginHosts);
  const challenge = await fetchChallenge(server, fetch);
  const { resource, as, scopes: named } = await discoverLogin(server, challenge, fetch);
  const { authorization_endpoint: address } = as;
  if (typeof address !== 'string' || !URL.canParse(address) || typeof as.token_endpoint !== 'string') {
    throw new AmbitError('LOGIN_FAILED', {
      what: `The authorization server ${as.issuer} has no authorization or token endpoint.`,
    });
  }
  const endpoint = new URL(address);
  loginHosts.assertForBrowser(endpoint);
  const { client, redirectUri } = await chooseClient(server, as, returnTarget, fetch);
  const offered = challenge !== undefined && challenge.scopes.length > 0 ? challenge.scopes : named;
  // Many give no refresh token without this scope, and demand consent each time with it.
  const lasting = as.scopes_supported?.includes('offline_access') === true ? ['offline_access'] : [];
  // A server cannot widen the scopes that the operator names.
  const scopes = [...new Set([...(server.oauth?.scopes ?? [...offered, ...previousScopes]), ...lasting])];
  const oauth = await loadOauth();
  const verifier = oauth.generateRandomCodeVerifier();
  const where = { server: server.name, url: server.url.href, resource, as: pickIssuerMetadata(as) };
  const attempt: LoginAttempt = { ...where, userId, verifier, redirectUri, client, scopes };
  return {
    attempt,
    /** Creates the address for the browser, with the `state` that the attempt is stored under. */
    async authorizationUrl(state: string): Promise<string> {
      const parameters = {
        response_type: 'code',
        client_id: client.clientId,
        redirect_uri: redirectUri,
        state,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        resource,
        ...(scopes.length === 0 ? {} : { scope: scopes.join(' ') }),
        ...(lasting.length === 0 ? {} : { prompt: 'consent' }),
      };
      for (const [name, value] of Object.entries(parameters)) endpoint.searchParams.set(name, value);
      return endpoint.href;
    },
  };
}

/** Fetches the challenge that the server sends to an unknown client. */
async function fetchChallenge({ name, url }: LoginServer, fetch: GuardedFetch): Promise<Challenge | undefined> {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  try {
    const response = await fetch(url.href, { method: 'POST', headers, body });
    return readChallenge(response.headers.get('www-authenticate') ?? undefined);
  } catch (error) {
    if (!(error instanceof NoAnswerError)) throw error;
    throw new AmbitError('LOGIN_FAILED', { what: `The server "${name}" does not answer: ${error.message}.` });
  }
}

function pickIssuerMetadata(as: AuthorizationServer): KnownIssuer {
  return {
    issuer: as.issuer,
    ...(as.token_endpoint === undefined ? {} : { token_endpoint: as.token_endpoint }),
    ...(as.revocation_endpoint === undefined ? {} : { revocation_endpoint: as.revocation_endpoint }),
    ...(Array.isArray(as.id_token_signing_alg_values_supported)
      ? { id_token_signing_alg_values_supported: as.id_token_signing_alg_values_supported }
      : {}),
    ...(as.authorization_response_iss_parameter_supported === true
      ? { authorization_response_iss_parameter_supported: true }
      : {}),
  };
}

/** Reads the `state` of a callback; undefined where there is none, or more than one. */
export function readState(callback: string): string | undefined {
  const found = URL.canParse(callback) ? new URL(callback).searchParams.getAll('state') : [];
  return found.length === 1 ? found[0] : undefined;
}

/** Throws when the answer came to the address of another authorization server. */
export function assertRedirectUri({ redirectUri }: LoginAttempt, callback: string): void {
  const { origin, pathname } = new URL(callback);
  if (`${origin}${pathname}` !== redirectUri) {
    throw new AmbitError('LOGIN_FAILED', { what: 'The answer came from a different authorization server.' });
  }
}

/** Redeems the code of a callback. `callback` is the whole address that the user came back to. */
export async function completeLogin(
  attempt: LoginAttempt,
  { callback, state }: { readonly callback: string; readonly state: string },
  fetch: GuardedFetch,
  at: number,
): Promise<{ readonly facts: LoginFacts; readonly secrets: LoginSecrets }> {
  const { userId, server, url, resource, client, as, verifier, redirectUri } = attempt;
  assertRedirectUri(attempt, callback);
  const given = { callback: new URL(callback).searchParams, state, verifier, redirectUri };
  const { accessToken, refreshToken, expiresAt, scopes = attempt.scopes } = await redeemCode(attempt, given, fetch);
  const facts: LoginFacts = {
    id: randomUUID(),
    userId,
    server,
    issuer: as.issuer,
    scopes,
    wanted: [],
    state: 'active',
    madeAt: at,
    renewedAt: at,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
  const kept = refreshToken === undefined ? {} : { refreshToken };
  return { facts, secrets: { url, resource, client, as, accessToken, ...kept } };
}
