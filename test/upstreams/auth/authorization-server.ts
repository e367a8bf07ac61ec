import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, type JWK } from 'jose';
import { freshKey } from '../../fresh-key.ts';

/** As much of `oidc-provider` as is used here; it brings no types. */
interface Provider {
  callback(): RequestListener;
  on(event: string, listener: (...args: never[]) => void): void;
  interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>;
  interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
  readonly Grant: (new (owner: object) => Grant) & { find(id: string): Promise<Grant | undefined> };
}

interface Grant {
  addOIDCScope(scopes: string): void;
  addResourceScope(resource: string, scopes: string): void;
  save(): Promise<string>;
}

interface Interaction {
  readonly prompt: { readonly name: string; readonly details: Record<string, unknown> };
  readonly params: { readonly client_id: string };
  readonly session?: { readonly accountId: string };
  readonly grantId?: string;
}

export interface AuthorizationServer {
  readonly issuer: string;
  readonly jwksUri: string;
  /** How often each path was asked for, with the kind of grant where there is one. */
  readonly asked: Map<string, number>;
  /** Answers a path otherwise than the provider would; undefined leaves it to the provider. */
  instead: (path: string, request: IncomingMessage) => { readonly status: number; readonly body: object } | undefined;
  close(): Promise<void>;
}

export interface ProviderSettings {
  readonly tokenSeconds?: number;
  readonly scopes?: string;
  /** Registered by hand; without any, everybody may register. */
  readonly clients?: readonly object[];
}

let key: Promise<JWK> | undefined;

/** Making one takes longer than a login. */
function signingKey(): Promise<JWK> {
  key ??= exportJWK(freshKey('RS256'));
  return key;
}

/** A real authorization server, where whoever comes is the person it knows and agrees to everything. */
export async function authorizationServer({
  tokenSeconds = 3600,
  scopes = 'read write',
  clients,
}: ProviderSettings = {}): Promise<AuthorizationServer> {
  const asked = new Map<string, number>();
  let handle: RequestListener = (_request, response) => response.writeHead(503).end();
  const http = createServer((request, response) => handle(request, response)).listen(0, '127.0.0.1');
  await new Promise((resolve) => http.once('listening', resolve));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const name = 'oidc-provider';
  const { default: Provider } = (await import(name)) as { default: new (issuer: string, settings: object) => Provider };
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await signingKey()), kid: 'one', use: 'sig', alg: 'RS256' }] },
    cookies: { keys: ['tests'] },
    clients: clients ?? [],
    scopes: ['read', 'write', 'offline_access'],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: clients === undefined },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx: unknown, resource: string) => ({
          scope: scopes,
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: tokenSeconds,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_ctx: unknown, id: string) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    ttl: {
      Interaction: 600,
      Session: 600,
      Grant: 86_400,
      AccessToken: tokenSeconds,
      RefreshToken: 86_400,
      AuthorizationCode: 60,
    },
    renderError(ctx: { body: string }, out: object, error: Error) {
      ctx.body = JSON.stringify({ ...out, detail: String(error) });
    },
  });

  async function interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
    if (prompt.name === 'login') {
      return provider.interactionFinished(request, response, { login: { accountId: 'person' } });
    }
    const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
    const grant = known ?? new provider.Grant({ accountId: session?.accountId, clientId: params.client_id });
    const { missingOIDCScope, missingResourceScopes } = prompt.details as Record<string, never>;
    if (missingOIDCScope !== undefined) grant.addOIDCScope((missingOIDCScope as string[]).join(' '));
    for (const [resource, missing] of Object.entries((missingResourceScopes ?? {}) as Record<string, string[]>)) {
      grant.addResourceScope(resource, missing.join(' '));
    }
    const consent = { grantId: await grant.save() };
    return provider.interactionFinished(request, response, { consent });
  }

  const server: AuthorizationServer = {
    issuer,
    jwksUri: `${issuer}/jwks`,
    asked,
    instead: () => undefined,
    close: () =>
      new Promise((resolve) => {
        http.closeAllConnections();
        http.close(() => resolve());
      }),
  };
  provider.on('grant.success', (ctx: { oidc: { params: { grant_type: string } } }) => {
    const { grant_type: kind } = ctx.oidc.params;
    asked.set(kind, (asked.get(kind) ?? 0) + 1);
  });
  const serve = provider.callback();
  handle = (request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] as string;
    asked.set(path, (asked.get(path) ?? 0) + 1);
    const other = server.instead(path, request);
    if (other !== undefined) {
      response.writeHead(other.status, { 'content-type': 'application/json' }).end(JSON.stringify(other.body));
      return;
    }
    if (path.startsWith('/interaction/')) {
      interact(request, response).catch((error) => response.writeHead(500).end(String(error)));
      return;
    }
    serve(request, response);
  };
  return server;
}

/** A browser with cookies, which goes where it is sent until it is sent back; resolves to that address. */
export async function browse(start: string, until: (url: string) => boolean): Promise<string> {
  const jar = new Map<string, string>();
  let url = start;
  for (let steps = 0; steps < 12; steps++) {
    if (until(url)) return url;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [name = '', value = ''] = (line.split(';', 1)[0] as string).split('=');
      jar.set(name, value);
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${url} leads nowhere: ${response.status} ${await response.text()}`);
    url = new URL(location, url).href;
  }
  throw new Error('sent around without end');
}
