import { applyEdits, removeMembers } from '../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import { type Message, readErrorCode, readMessage } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../protocol/reserved-meta.ts';
import { handshakeVersions, modernVersion } from '../../protocol/versions.ts';

/** The key of clients that may share a process: the same revision and the same capabilities. */
export function handshakeKey(initialize: Message): string {
  const params = initialize.params?.shape;
  const version = readStringValue(initialize.bytes, findMember(params, 'protocolVersion')) ?? '';
  return `${version} ${JSON.stringify(sortKeys(parseObject(initialize, findMember(params, 'capabilities'))))}`;
}

/**
 * The params of a handshake that Ambit can repeat: without reserved keys, on one line, and without the progress token of
 * the first request.
 */
export function repeatableParams(initialize: Message): string {
  const clean = readMessage(applyEdits(toSingleLine(initialize.bytes), stripReservedMeta(initialize)));
  const tokens = clean.meta === undefined ? [] : removeMembers(clean.meta, ({ key }) => perRequestKeys.has(key));
  const again = readMessage(applyEdits(clean.bytes, tokens));
  return again.params === undefined ? '{}' : readRawValue(again.bytes, again.params);
}

const perRequestKeys = new Set(['progressToken', 'traceparent', 'tracestate']);

/** The error of the protocol for an upstream that knows no handshake. */
export function unsupportedHandshakeError(initialize: Message): ProtocolError {
  const requested = readStringValue(initialize.bytes, findMember(initialize.params?.shape, 'protocolVersion'));
  return new ProtocolError(-32022, 400, 'Unsupported protocol version', { supported: [modernVersion], requested });
}

/** True for the answer of a modern server to `initialize`. */
export function rejectsHandshake(answer: Message): boolean {
  return ['-32601', '-32022'].includes(readErrorCode(answer) ?? '');
}

/** The key of a client's capabilities in either era. Clients with the same key get the same lists. */
export function capabilitiesKey(message: Message): string {
  const modern = findMember(message.meta, 'io.modelcontextprotocol/clientCapabilities');
  const { extensions: _, ...known } = parseObject(message, modern ?? findMember(message.params?.shape, 'capabilities'));
  return JSON.stringify(sortKeys(known));
}

/** Creates the params of a handshake for a modern client, from the capabilities in its request. */
export function createHandshakeParams(request: Message): string {
  const capabilities = findMember(request.meta, 'io.modelcontextprotocol/clientCapabilities');
  // The handshake era knows no extensions.
  const { extensions: _, ...known } = parseObject(request, capabilities);
  return JSON.stringify({
    protocolVersion: handshakeVersions[0],
    capabilities: sortKeys(known),
    clientInfo: { name: 'ambit', version: '0' },
  });
}

function parseObject({ bytes }: Message, member: JsonMember | undefined): Record<string, unknown> {
  return member === undefined ? {} : JSON.parse(readRawValue(bytes, member));
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}
