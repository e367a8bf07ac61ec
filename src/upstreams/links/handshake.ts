import { AmbitError } from '../../errors.ts';
import { applyEdits, removeMembers } from '../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import { type Message, readErrorCode, readMessage } from '../../protocol/message.ts';
import { EraError, ProtocolError } from '../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../protocol/reserved-meta.ts';
import { handshakeVersions, modernVersion } from '../../protocol/versions.ts';
import type { ServerDefinition } from '../definition.ts';
import { readSupportedVersions } from './era-verdicts.ts';

type PushPermissions = ServerDefinition['push'];

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

/** True for an answer to `initialize` that a modern server may give: it says nothing against the modern era. */
export function rejectsHandshake(answer: Message): boolean {
  if (readSupportedVersions(answer)?.includes(modernVersion) === false) return false;
  return ['-32601', '-32020', '-32021', '-32022'].includes(readErrorCode(answer) ?? '');
}

/**
 * The error for a server that refused a handshake of Ambit's own: an era error where the server may be modern. The
 * hint for a server over HTTP is about its URL.
 */
export function refusedHandshakeError(answer?: Message, server?: Pick<ServerDefinition, 'name' | 'kind'>): Error {
  if (answer !== undefined && rejectsHandshake(answer)) {
    return new EraError(-32022, 400, 'Unsupported protocol version', { supported: [modernVersion] });
  }
  const what =
    server === undefined ? 'The server refused the handshake.' : `The server "${server.name}" refused the handshake.`;
  if (server?.kind !== 'http') return new AmbitError('UPSTREAM_FAILED', { what });
  return new AmbitError('UPSTREAM_FAILED', {
    what,
    hint: 'Check the URL of the server in the configuration, and the log of the server.',
  });
}

/** The key of a client's capabilities and extensions in either era. Clients with the same key get the same lists. */
export function capabilitiesKey(message: Message): string {
  const modern = findMember(message.meta, 'io.modelcontextprotocol/clientCapabilities');
  return JSON.stringify(sortKeys(parseObject(message, modern ?? findMember(message.params?.shape, 'capabilities'))));
}

/** The handshake that Ambit makes with a server for modern clients. */
interface OwnHandshake {
  /** The key of the clients that may share the handshake: their capabilities and extensions, as JSON. */
  readonly key: string;
  readonly params: string;
}

/**
 * Creates the handshake for a modern client, with the capabilities and extensions of its request. The server is told the
 * `clientInfo` of the client that opens the link. It is not part of the key: clients report it themselves, and one that
 * changes it with each request must not get a new process each time. A process that several sessions share is told
 * Ambit's own name, because no name of one client would be right for the others.
 */
export function createHandshake(request: Message, isShared: boolean): OwnHandshake {
  const declared = parseObject(request, findMember(request.meta, 'io.modelcontextprotocol/clientCapabilities'));
  const capabilities = sortKeys(withoutModernExtensions(declared));
  const clientInfo = isShared ? undefined : readClientInfo(request);
  const params = { protocolVersion: handshakeVersions[0], capabilities, clientInfo: clientInfo ?? ownClientInfo };
  return { key: JSON.stringify(capabilities), params: JSON.stringify(params) };
}

const ownClientInfo = { name: 'ambit', version: '0' };

/** The extensions that exist only in the modern era. */
const modernExtensions: ReadonlySet<string> = new Set(['io.modelcontextprotocol/tasks']);

/** Removes the extensions that do not work across the eras from the capabilities of a client or a server. */
export function withoutModernExtensions(capabilities: Record<string, unknown>): Record<string, unknown> {
  const { extensions, ...rest } = capabilities;
  if (typeof extensions !== 'object' || extensions === null || Array.isArray(extensions)) return rest;
  const kept = Object.entries(extensions).filter(([name]) => !modernExtensions.has(name));
  return kept.length === 0 ? rest : { ...rest, extensions: Object.fromEntries(kept) };
}

/** Reads the name and version of a client; undefined if a handshake-era server would refuse them. */
function readClientInfo(request: Message): Record<string, unknown> | undefined {
  const member = findMember(request.meta, 'io.modelcontextprotocol/clientInfo');
  const info = member === undefined ? undefined : (JSON.parse(readRawValue(request.bytes, member)) as unknown);
  if (typeof info !== 'object' || info === null) return undefined;
  const { name, version } = info as Record<string, unknown>;
  return typeof name === 'string' && typeof version === 'string' ? (info as Record<string, unknown>) : undefined;
}

/** Lists the capabilities, as JSON text, of a client that supports everything the server may ask it for. */
export function createWidestCapabilities({ sampling, elicitation, roots }: PushPermissions): string {
  const taskRequests = {
    ...(sampling ? { sampling: { createMessage: {} } } : {}),
    ...(elicitation ? { elicitation: { create: {} } } : {}),
  };
  return JSON.stringify({
    ...(elicitation ? { elicitation: { form: {}, url: {} } } : {}),
    extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } },
    ...(roots ? { roots: { listChanged: true } } : {}),
    ...(sampling ? { sampling: { context: {}, tools: {} } } : {}),
    tasks: { cancel: {}, list: {}, requests: taskRequests },
  });
}

function parseObject({ bytes }: Message, member: JsonMember | undefined): Record<string, unknown> {
  const value = member === undefined ? undefined : (JSON.parse(readRawValue(bytes, member)) as unknown);
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]));
}
