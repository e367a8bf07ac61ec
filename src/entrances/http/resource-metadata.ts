import type { IncomingMessage, ServerResponse } from 'node:http';
import { allServers } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { sendJson } from './http-parts.ts';
import { dropBody } from './read-body.ts';

const wellKnown = '/.well-known/oauth-protected-resource';
const resourcePaths = /^(?:\/mcp(?:\/[a-z0-9-]{1,64})?)?$/;

/** The base address for clients: the configured one, or the host that they used, which the guards have accepted. */
function publicBase(gateway: Gateway, request: IncomingMessage): string {
  const { publicUrl } = gateway.config.listen;
  return (publicUrl ?? `http://${request.headers.host ?? ''}`).replace(/\/$/, '');
}

/** The address of the metadata for one of our addresses (RFC 9728). */
function metadataAddress(gateway: Gateway, request: IncomingMessage, server: string): string {
  const base = publicBase(gateway, request);
  return `${new URL(base).origin}${wellKnown}${basePath(base)}/mcp${server === allServers ? '' : `/${server}`}`;
}

function basePath(base: string): string {
  const { pathname } = new URL(base);
  return pathname === '/' ? '' : pathname;
}

/**
 * Serves the metadata and returns true. All servers have the same metadata, so that nobody learns which servers exist.
 */
export function serveResourceMetadata(
  gateway: Gateway,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  const { jwt } = gateway;
  if (jwt === undefined || request.method !== 'GET' || !path.startsWith(wellKnown)) return false;
  const base = publicBase(gateway, request);
  const [under, within] = [path.slice(wellKnown.length), basePath(base)];
  // A proxy may pass on its own path or remove it.
  const form = under === within || under.startsWith(`${within}/`) ? under.slice(within.length) : under;
  if (!resourcePaths.test(form)) return false;
  const { issuers, scopes } = jwt;
  const metadata = {
    resource: findResource(gateway, `${base}${form === '' ? '/mcp' : form}`),
    authorization_servers: issuers,
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    bearer_methods_supported: ['header'],
    resource_name: 'Ambit',
  };
  dropBody(request, response, true);
  sendJson(response, 200, metadata, { 'cache-control': 'no-store' });
  return true;
}

/**
 * Finds the resource that a client asks a token for. It must be an accepted audience: the address itself, or the
 * address of all servers.
 */
function findResource(gateway: Gateway, address: string): string {
  const accepted = gateway.config.auth.jwt.flatMap(({ audience }) => audience);
  const whole = address.replace(/(\/mcp)\/[^/]+$/, '$1');
  return [address, whole].find((each) => accepted.includes(each)) ?? address;
}

/**
 * Creates the header for a client that needs a token or a better one (RFC 6750, RFC 9728). It names the metadata and
 * all scopes at once. `scopes` are those that the token lacked; undefined if no token was valid.
 */
export function createChallenge(
  gateway: Gateway,
  server: string,
  request: IncomingMessage,
  scopes: readonly string[] | undefined,
): Record<string, string> {
  const parts = ['realm="ambit"'];
  const { jwt } = gateway;
  if (scopes !== undefined) parts.push('error="insufficient_scope"');
  else if (jwt !== undefined && request.headers.authorization !== undefined) parts.push('error="invalid_token"');
  const needed = scopes ?? jwt?.required ?? [];
  if (needed.length > 0) parts.push(`scope="${needed.join(' ')}"`);
  if (jwt !== undefined) parts.push(`resource_metadata="${metadataAddress(gateway, request, server)}"`);
  return { 'www-authenticate': `Bearer ${parts.join(', ')}` };
}
