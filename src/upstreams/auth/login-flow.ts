import { createHash, randomUUID } from 'node:crypto';
import type { AuthorizationServer } from 'oauth4webapi';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { readSecret } from '../../lib/fs/private-files.ts';
import {
  type Challenge,
  discoverLogin,
  loadOauth,
  readChallenge,
  redeemCode,
  requestOptions,
} from './authorization-server.ts';
import { createGuardedFetch, type GuardedFetch, type LoginHosts, NoAnswerError } from './guarded-fetch.ts';
import type { KnownIssuer, LoginAttempt, LoginClient, LoginFacts, LoginSecrets, LoginServer } from './login.ts';

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

/** The target that the authorization server sends the user back to: the gateway, or a port of the command. */
export type ReturnTarget = { readonly publicUrl: string } | { readonly loopbackPort: number };

/**
 * The part of the redirect address that tells authorization servers apart (RFC 9700, 4.4.2), for those that do not name
 * themselves in their answer.
 */
function issuerTag(issuer: string): string {
  return createHash('sha256').update(issuer).digest('hex').slice(0, 16);
}

/** Chooses the client: the one registered by hand, else the one of our metadata document, else a new one. */
async function chooseClient(
  server: LoginServer,
  as: AuthorizationServer,
  returnTarget: ReturnTarget,
  fetch: GuardedFetch,
): Promise<{ readonly client: LoginClient; readonly redirectUri: string }> {
  const { clientId, clientSecretFile } = server.oauth ?? {};
  const tag = issuerTag(as.issuer);
  if (clientId !== undefined) {
    const clientSecret = clientSecretFile === undefined ? undefined : readClientSecret(clientSecretFile);
    const client: LoginClient =
      clientSecret === undefined
        ? { clientId, method: 'none' }
        : { clientId, clientSecret, method: chooseSecretMethod(as) };
    // A client that was registered by hand knows only this address.
    return { client, redirectUri: redirectUriFor(returnTarget, undefined) };
  }
  const redirectUri = redirectUriFor(returnTarget, tag);
  const hasPublicDocument = 'publicUrl' in returnTarget && new URL(returnTarget.publicUrl).protocol === 'https:';
  if (hasPublicDocument && as['client_id_metadata_document_supported'] === true) {
    return { client: { clientId: clientDocumentUrl(returnTarget.publicUrl, tag), method: 'none' }, redirectUri };
  }
  if (as.registration_endpoint === undefined) {
    throw new AmbitError('LOGIN_FAILED', {
      what: `The authorization server ${as.issuer} has no automatic client registration.`,
      hint: `Register Ambit there with the redirect address ${redirectUriFor(returnTarget, undefined)}, then set servers.${server.name}.oauth.clientId and issuer.`,
    });
  }
  return {
    client: await registerClient(as, redirectUri, 'publicUrl' in returnTarget ? 'web' : 'native', fetch),
    redirectUri,
  };
}

function redirectUriFor(returnTarget: ReturnTarget, tag: string | undefined): string {
  const path = tag === undefined ? '' : `/${tag}`;
  if ('publicUrl' in returnTarget) return `${returnTarget.publicUrl.replace(/\/$/, '')}/oauth/callback${path}`;
  return `http://127.0.0.1:${returnTarget.loopbackPort}/callback${path}`;
}

function clientDocumentUrl(publicUrl: string, tag: string): string {
  return `${publicUrl.replace(/\/$/, '')}/oauth/client/${tag}.json`;
}

/** The metadata document of the client, for authorization servers that read one instead of registering. */
export function createClientDocument(publicUrl: string, tag: string): Record<string, unknown> {
  return {
    client_id: clientDocumentUrl(publicUrl, tag),
    ...clientMetadata([redirectUriFor({ publicUrl }, tag)], 'web'),
  };
}

function clientMetadata(redirectUris: readonly string[], type: 'web' | 'native') {
  return {
    client_name: 'Ambit',
    redirect_uris: [...redirectUris],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: type,
  };
}

async function registerClient(
  as: AuthorizationServer,
  redirectUri: string,
  type: 'web' | 'native',
  fetch: GuardedFetch,
): Promise<LoginClient> {
  const oauth = await loadOauth();
  try {
    const response = await oauth.dynamicClientRegistrationRequest(
      as,
      clientMetadata([redirectUri], type),
      requestOptions(oauth, fetch),
    );
    const made = await oauth.processDynamicClientRegistrationResponse(response);
    const { client_id: clientId, client_secret: clientSecret, token_endpoint_auth_method: method } = made;
    if (typeof clientSecret !== 'string' || method === 'none') return { clientId, method: 'none' };
    return { clientId, clientSecret, method: method === 'client_secret_post' ? method : 'client_secret_basic' };
  } catch (error) {
    if (isAmbitError(error)) throw error;
    throw new AmbitError('LOGIN_FAILED', {
      what: `The authorization server ${as.issuer} refused to register Ambit.`,
      cause: error,
    });
  }
}

function chooseSecretMethod(as: AuthorizationServer): LoginClient['method'] {
  const known = as.token_endpoint_auth_methods_supported;
  const postOnly =
    known !== undefined && !known.includes('client_secret_basic') && known.includes('client_secret_post');
  return postOnly ? 'client_secret_post' : 'client_secret_basic';
}

function readClientSecret(file: string): string {
  const secret = readSecret(file);
  if (secret !== undefined) return secret;
  throw new AmbitError('LOGIN_FAILED', { what: `The file ${file} with the client secret does not exist.` });
}
