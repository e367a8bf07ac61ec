import { findMember, readShape, readStringValue } from './json/scan.ts';
import type { Message } from './message.ts';
import { ProtocolError } from './protocol-error.ts';
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
  /** The HTTP status; 400 unless given. */
  readonly status?: number;
}

const versionKey = 'io.modelcontextprotocol/protocolVersion';
const capabilitiesKey = 'io.modelcontextprotocol/clientCapabilities';
/** The extension for long-running calls (SEP-2663). */
export const tasksExtension = 'io.modelcontextprotocol/tasks';
const removedMethods: ReadonlySet<string> = new Set(['initialize', 'tasks/result']);

/** Reads the revision that a message claims; undefined in the handshake era. */
export function readClaimedVersion(message: Message): string | undefined {
  return readStringValue(message.bytes, findMember(message.meta, versionKey));
}

/**
 * Finds the first error in the envelope of a modern message, in the order that the protocol prescribes. A notification
 * needs no envelope: the Go SDK sends `notifications/cancelled` without one.
 */
export function findEnvelopeError(message: Message, headers: MirroredHeaders | undefined): EnvelopeError | undefined {
  const claimed = readClaimedVersion(message);
  if (headers !== undefined) {
    const mismatch = findHeaderMismatch(message, claimed, headers);
    if (mismatch !== undefined) return { rpc: -32020, message: mismatch };
  }
  if (message.kind === 'response') return undefined;
  if (message.kind === 'notification') {
    const version = claimed ?? headers?.version ?? modernVersion;
    return version === modernVersion ? undefined : unsupportedVersion(version);
  }
  if (claimed === undefined) return { rpc: -32602, message: `_meta["${versionKey}"] is missing` };
  if (claimed !== modernVersion) return unsupportedVersion(claimed);
  const capabilities = findMember(message.meta, capabilitiesKey);
  if (capabilities === undefined) return { rpc: -32602, message: `_meta["${capabilitiesKey}"] is missing` };
  // A server that serves both eras would take it for a request of the earlier one.
  if (removedMethods.has(message.method)) return { rpc: -32601, message: 'Method not found', status: 404 };
  return undefined;
}

function unsupportedVersion(requested: string): EnvelopeError {
  const data = { supported: [modernVersion], requested };
  return { rpc: -32022, message: 'Unsupported protocol version', data };
}

function findHeaderMismatch(
  message: Message,
  claimed: string | undefined,
  headers: MirroredHeaders,
): string | undefined {
  const isRequest = message.kind === 'request';
  if (claimed !== undefined && headers.version !== claimed) {
    return 'The MCP-Protocol-Version header and the protocol version in _meta must agree';
  }
  if (claimed === undefined && isRequest) return undefined;
  if (isRequest ? headers.method !== message.method : headers.method !== undefined && headers.method !== message.method)
    return 'The Mcp-Method header and the method in the body must agree';
  const key = isRequest ? findMirroredParam(message.method) : undefined;
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

/** Tells whether a modern request declares that its client can handle tasks. */
export function declaresTasks({ bytes, meta }: Message): boolean {
  const member = findMember(meta, capabilitiesKey);
  const capabilities = member === undefined ? undefined : readShape(bytes, member);
  const extensions = findMember(capabilities, 'extensions');
  const shape = extensions === undefined ? undefined : readShape(bytes, extensions);
  return findMember(shape, tasksExtension) !== undefined;
}

/** The error of a request that needs a client with the tasks extension. */
export function missingTasksError(): ProtocolError {
  const requiredCapabilities = { extensions: { [tasksExtension]: {} } };
  return new ProtocolError(-32021, 400, 'Missing required client capability', { requiredCapabilities });
}
