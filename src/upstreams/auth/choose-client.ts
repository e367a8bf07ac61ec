import { createHash } from 'node:crypto';
import type { AuthorizationServer } from 'oauth4webapi';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { readSecret } from '../../lib/fs/private-files.ts';
import type { GuardedFetch } from './guarded-fetch.ts';
import type { LoginClient, LoginServer } from './login.ts';
import { loadOauth, requestOptions } from './token-requests.ts';

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
export async function chooseClient(
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
