import { decodeHeaderValue } from './header-value.ts';
import { memberOf, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';
import { modernVersion } from './versions.ts';

/** Headers that must say the same as the body (MCP 2026-07-28, streamable HTTP). Undefined on stdio. */
export interface MirroredHeaders {
  readonly version: string | undefined;
  readonly method: string | undefined;
  readonly name: string | undefined;
}

export interface EnvelopeFault {
  readonly rpc: number;
  readonly message: string;
  readonly data?: unknown;
}

const versionKey = 'io.modelcontextprotocol/protocolVersion';

/** The revision a message claims for itself; undefined in the handshake era. */
export function claimedVersion(message: Message): string | undefined {
  return stringAt(message.bytes, memberOf(message.meta, versionKey));
}

/** What is wrong with a modern request's description of itself, in the order the protocol wants it found. */
export function envelopeFault(message: Message, headers: MirroredHeaders | undefined): EnvelopeFault | undefined {
  const claimed = claimedVersion(message);
  if (headers !== undefined) {
    const mismatch = headerMismatch(message, claimed, headers);
    if (mismatch !== undefined) return { rpc: -32020, message: mismatch };
  }
  if (message.kind !== 'request') return undefined;
  if (claimed === undefined) return { rpc: -32602, message: `_meta["${versionKey}"] is missing` };
  if (claimed !== modernVersion) {
    const data = { supported: [modernVersion], requested: claimed };
    return { rpc: -32022, message: 'Unsupported protocol version', data };
  }
  if (memberOf(message.meta, 'io.modelcontextprotocol/clientCapabilities') === undefined) {
    return { rpc: -32602, message: '_meta["io.modelcontextprotocol/clientCapabilities"] is missing' };
  }
  return undefined;
}

function headerMismatch(message: Message, claimed: string | undefined, headers: MirroredHeaders): string | undefined {
  if (claimed !== undefined && headers.version !== claimed) {
    return 'The MCP-Protocol-Version header and the protocol version in _meta must agree';
  }
  if (claimed === undefined) return undefined;
  if (
    message.kind === 'request'
      ? headers.method !== message.method
      : headers.method !== undefined && headers.method !== message.method
  ) {
    return 'The Mcp-Method header and the method in the body must agree';
  }
  const key = mirroredParam(message.method);
  if (key === undefined) return undefined;
  const named = stringAt(message.bytes, memberOf(message.params?.shape, key));
  const header = headers.name === undefined ? undefined : decodeHeaderValue(headers.name);
  return header !== undefined && header === named ? undefined : `The Mcp-Name header and params.${key} must agree`;
}

function mirroredParam(method: string): string | undefined {
  switch (method) {
    case 'tools/call':
    case 'prompts/get':
      return 'name';
    case 'resources/read':
      return 'uri';
    case 'tasks/get':
    case 'tasks/update':
    case 'tasks/cancel':
      return 'taskId';
    default:
      return undefined;
  }
}
