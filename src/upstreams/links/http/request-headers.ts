import type { Message } from '../../../protocol/message.ts';
import { encodeHeaderValue } from '../../../protocol/modern-envelope.ts';
import { modernVersion } from '../../../protocol/versions.ts';
import type { Outgoing } from '../relay/towards-upstream.ts';

const accept = 'application/json, text/event-stream';
const named = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** The headers MCP asks for, made anew from the message itself; of the caller's only `Mcp-Param-*` goes on. */
export function modernHeaders(
  message: Message,
  outgoing: Pick<Outgoing, 'name' | 'taskId'>,
  params: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = {
    ...params,
    accept,
    'mcp-protocol-version': modernVersion,
    'mcp-method': message.method,
  };
  if (named.has(message.method)) headers['mcp-name'] = encodeHeaderValue(outgoing.name);
  else if (outgoing.taskId !== undefined) headers['mcp-name'] = encodeHeaderValue(outgoing.taskId);
  return headers;
}

export function handshakeHeaders(
  upstreamSession: string | undefined,
  version: string | undefined,
): Record<string, string> {
  return {
    accept,
    ...(upstreamSession === undefined ? {} : { 'mcp-session-id': upstreamSession }),
    // Revisions before 2025-06-18 do not know this header.
    ...(version === undefined || version < '2025-06-18' ? {} : { 'mcp-protocol-version': version }),
  };
}

/** Common servers take 8 KiB in one header and 16 in all, of which the name of what is asked for may be half. */
const longestToken = 6144;

/**
 * The same token that stands in `_meta`, for upstreams that look at a request before they read it. One that is bound to
 * a very long name stands in `_meta` alone: in a header it would have the whole request refused.
 */
export function withToken(headers: Record<string, string>, token: string | undefined): Record<string, string> {
  if (token !== undefined && token.length <= longestToken) headers['txn-token'] = token;
  return headers;
}
