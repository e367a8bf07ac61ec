import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK } from 'jose';
import { freshKey } from '../../fresh-key.ts';

interface Grant {
  addResourceScope(resource: string, scope: string): void;
  save(): Promise<unknown>;
}

interface Asked {
  readonly oidc: {
    readonly client: { readonly clientId: string };
    readonly session: { readonly accountId: string };
    readonly params: { readonly resource?: string | string[]; readonly scope?: string };
    readonly provider: { readonly Grant: new (of: object) => Grant };
  };
}

/** As much of the package as is used here; it has no types of its own. */
interface Provider {
  callback(): RequestListener;
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
}

export const redirectUri = 'http://127.0.0.1:1/callback';
export const clientId = 'mcp-client';

/** A real authorization server on this machine, at which everybody is signed in as `alice` and agrees to all. */
export async function startAuthorizationServer(scopes: string) {
  let answer: RequestListener = (_request, response) => void response.writeHead(503).end();
  const server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const name: string = 'oidc-provider';
  const { default: Provider } = (await import(name)) as { default: new (issuer: string, options: object) => Provider };
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        id_token_signed_response_alg: 'ES256',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(freshKey('ES256'))), alg: 'ES256', use: 'sig', kid: 'one' }] },
    cookies: { keys: ['only for tests'] },
    pkce: { required: () => true },
    ttl: { Interaction: 60, Grant: 600, Session: 600, AuthorizationCode: 60, AccessToken: 300, RefreshToken: 600 },
    findAccount: (_context: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
    interactions: { url: (_context: unknown, { uid }: { readonly uid: string }) => `/sign-in/${uid}` },
    async loadExistingGrant({ oidc }: Asked) {
      const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
      for (const resource of [oidc.params.resource ?? []].flat()) grant.addResourceScope(resource, scopes);
      await grant.save();
      return grant;
    },
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: scopes,
          audience: resource,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
          accessTokenTTL: 300,
        }),
      },
    },
  });
  const served = provider.callback();
  answer = (request, response) => {
    if (!request.url?.startsWith('/sign-in/')) return served(request, response);
    return void provider.interactionFinished(request, response, { login: { accountId: 'alice' }, consent: {} });
  };
  return {
    issuer,
    jwksUri: `${issuer}/jwks`,
    signIn,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Follows redirects like a browser, from the sign-in address to the address it is sent back to. */
async function signIn(start: URL): Promise<URLSearchParams> {
  const cookies = new Map<string, string>();
  let at = start.href;
  for (let hops = 0; hops < 10 && !at.startsWith(redirectUri); hops++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(key, value);
    }
    const next = answer.headers.get('location');
    if (next === null) throw new Error(`no way on from ${at}: ${answer.status} ${await answer.text()}`);
    at = new URL(next, at).href;
  }
  if (!at.startsWith(redirectUri)) throw new Error(`sent round in circles, last to ${at}`);
  return new URL(at).searchParams;
}
