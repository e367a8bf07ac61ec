import type { IncomingMessage } from 'node:http';
import type { Gateway } from '../../gateway/gateway.ts';
import { metadataAddress } from './resource-metadata.ts';

/**
 * What a client that needs a token, or a better one, is told (RFC 6750, RFC 9728): where tokens are to be had, and all
 * the scopes at once. `scopes` are those that a token lacked; without them, no token was good at all.
 */
export function challenge(
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
