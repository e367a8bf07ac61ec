import { findMember, readStringValue } from './json/scan.ts';
import type { Message } from './message.ts';
import { modernVersion } from './versions.ts';

/** Headers that must agree with the body (MCP 2026-07-28, streamable HTTP). Undefined on stdio. */
export interface MirroredHeaders {
  readonly version: string | undefined;
  readonly method: string | undefined;
  readonly name: string | undefined;
}

export interface EnvelopeError {
  readonly rpc: number;
  readonly message: string;
  readonly data?: unknown;
}

const versionKey = 'io.modelcontextprotocol/protocolVersion';

/** Reads the revision that a message claims; undefined in the handshake era. */
export function readClaimedVersion(message: Message): string | undefined {
  return readStringValue(message.bytes, findMember(message.meta, versionKey));
}

/** Finds the first error in the envelope of a modern request, in the order that the protocol prescribes. */
export function findEnvelopeError(message: Message, headers: MirroredHeaders | undefined): EnvelopeError | undefined {
  const claimed = readClaimedVersion(message);
  if (headers !== undefined) {
    const mismatch = findHeaderMismatch(message, claimed, headers);
    if (mismatch !== undefined) return { rpc: -32020, message: mismatch };
  }
  if (message.kind !== 'request') return undefined;
  if (claimed === undefined) return { rpc: -32602, message: `_meta["${versionKey}"] is missing` };
  if (claimed !== modernVersion) {
    const data = { supported: [modernVersion], requested: claimed };
    return { rpc: -32022, message: 'Unsupported protocol version', data };
  }
  if (findMember(message.meta, 'io.modelcontextprotocol/clientCapabilities') === undefined) {
    return { rpc: -32602, message: '_meta["io.modelcontextprotocol/clientCapabilities"] is missing' };
  }
  return undefined;
}

function findHeaderMismatch(
  message: Message,
  claimed: string | undefined,
  headers: MirroredHeaders,
): string | undefined {
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
  const key = findMirroredParam(message.method);
  if (key === undefined) return undefined;
  const named = readStringValue(message.bytes, findMember(message.params?.shape, key));
  const header = headers.name === undefined ? undefined : decodeHeaderValue(headers.name);
  return header !== undefined && header === named ? undefined : `The Mcp-Name header and params.${key} must agree`;
}

function findMirroredParam(method: string): string | undefined {
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

/** Header values; others travel as `=?base64?…?=` (MCP 2026-07-28, streamable HTTP, "Standard headers"). */
const plainHeaderValue = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const encodedHeaderValue = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

export function encodeHeaderValue(value: string): string {
  if (plainHeaderValue.test(value) && !value.startsWith('=?')) return value;
  return `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

/** Decodes a header value. Undefined if the encoding is invalid. */
export function decodeHeaderValue(value: string): string | undefined {
  if (!value.startsWith('=?')) return value;
  const parts = encodedHeaderValue.exec(value);
  if (parts === null) return undefined;
  const bytes = Buffer.from(parts[1] as string, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}
