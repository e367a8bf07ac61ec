import type { AuthorizationServer } from 'oauth4webapi';
import { AmbitError } from '../../errors.ts';
import { type GuardedFetch, NoAnswerError } from './guarded-fetch.ts';
import type { LoginServer } from './login.ts';

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

export function parseScopes(text: string | undefined): readonly string[] {
  const words = (text ?? '').split(' ').filter((word) => scopeToken.test(word));
  return [...new Set(words)].slice(0, 100);
}
