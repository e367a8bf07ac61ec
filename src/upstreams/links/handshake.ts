import { AmbitError, isAmbitError } from '../../errors.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { composeResult } from '../../protocol/compose-message.ts';
import { applyEdits, removeMembers } from '../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import { type Message, readErrorCode, readMessage } from '../../protocol/message.ts';
import { EraError, ProtocolError } from '../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../protocol/reserved-meta.ts';
import { handshakeVersions, modernVersion } from '../../protocol/versions.ts';
import type { ServerDefinition } from '../definition.ts';
import { type EraDoubt, type EraVerdicts, readSupportedVersions, setVerdict } from './era-verdicts.ts';
import type { Handshake } from './link.ts';
import { wasKilled } from './upstream-errors.ts';

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

/** Sends a request of Ambit's own to a process. `maxMs` shortens the time that the process has to answer. */
type AskProcess = (method: string, params: string, maxMs?: number) => Promise<Message>;

/** The exchange with a fresh process before calls may reach it, and the answers that are known from it. */
export interface Opening {
  /** Throws when the server is known not to speak this era. */
  assertPossible(): void;
  /** True for an exchange that finds out the era. A server that is of the other era may end over it. */
  readonly isProbe: boolean;
  perform(ask: AskProcess, write: (bytes: Buffer) => void): Promise<void>;
  /** Hears the answer to a probe that came after its time: the process was slow, not silent. */
  onLateProbe?(answer: Message): void;
  /** The answer to a further `initialize`, from the first handshake. */
  answer(message: Message): FinalReply | undefined;
  /** True for a notification that this process has had already. */
  isRedundant(message: Message): boolean;
}

/**
 * The time that a process has to answer a probe. Some servers answer nothing before `initialize`. They get that on the same
 * process then.
 */
const probeMs = 10_000;

/**
 * Opens a modern process with a probe, even if the server is remembered as modern. The definition of a server does not pin
 * its program: `npx` may fetch a new version, and a script may be edited. Some handshake-era servers execute calls before
 * `initialize`, so a wrong verdict could not be corrected without executing the call twice. A modern server must answer
 * `server/discover`, so the probe costs one round trip to a process whose start takes far longer. A configured `era` saves it.
 */
export function modernOpening(server: string, verdicts: EraVerdicts): Opening {
  return {
    assertPossible() {
      if (verdicts.get(server) === 'handshake') throw unsupportedModernError();
    },
    isProbe: true,
    async perform(ask) {
      if (verdicts.isConfigured(server)) return;
      // Silence or an exit may have other reasons, so the verdict expires soon.
      let doubt: EraDoubt | undefined;
      // A server that has proved to be modern starts slowly, rather than being silent.
      const maxMs = verdicts.getCertain(server) === 'modern' ? undefined : probeMs;
      const answer = await ask('server/discover', discoverParams, maxMs).catch((error: unknown) => {
        // The end of the session says nothing about the server.
        if (isAmbitError(error) && !error.code.startsWith('UPSTREAM_')) throw error;
        const isSilence = wasKilled(error) || (isAmbitError(error) && error.code === 'UPSTREAM_TIMEOUT');
        doubt = isSilence ? 'silence' : 'answer';
        return undefined;
      });
      if (!setVerdict(verdicts, server, answer, doubt)) throw unsupportedModernError();
    },
    answer: () => undefined,
    isRedundant: () => false,
  };
}

/** The error for a modern client of a server that knows only the handshake. */
export function unsupportedModernError(): EraError {
  return new EraError(-32022, 400, 'Unsupported protocol version', {
    supported: handshakeVersions,
    requested: modernVersion,
  });
}

export const discoverParams = JSON.stringify({
  _meta: {
    'io.modelcontextprotocol/protocolVersion': modernVersion,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'ambit', version: '0' },
  },
});

export interface HandshakeOpening extends Opening {
  /** Remembers the first handshake, to repeat it to a new process and to answer further clients. */
  remember(request: Message, answer: Message): Handshake | undefined;
  readonly handshake: Handshake | undefined;
}

export function handshakeOpening(): HandshakeOpening {
  let handshake: Handshake | undefined;
  let params = '{}';
  let initialized = false;
  return {
    get handshake() {
      return handshake;
    },
    assertPossible() {},
    isProbe: false,
    async perform(ask, write) {
      initialized = false;
      if (handshake === undefined) return;
      await ask('initialize', params);
      write(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}\n'));
      initialized = true;
    },
    answer(message) {
      if (message.method !== 'initialize' || handshake === undefined) return undefined;
      return { kind: 'message', bytes: composeResult(message.id as string, handshake.result), status: 200 };
    },
    isRedundant(message) {
      if (message.method !== 'notifications/initialized') return false;
      const seen = initialized;
      initialized = true;
      return seen;
    },
    remember(request, answer) {
      if (answer.result === undefined || request.params === undefined) return undefined;
      params = repeatableParams(request);
      const version = readStringValue(answer.bytes, findMember(answer.result.shape, 'protocolVersion'));
      if (version === undefined) return undefined;
      handshake = { version, result: readRawValue(answer.bytes, answer.result) };
      return handshake;
    },
  };
}

/** Opens a handshake-era process for a modern client: Ambit makes the handshake itself. */
export function ownHandshakeOpening(
  params: string,
  onAccepted: () => void,
  onLateProbe: (answer: Message) => void,
): Opening & { readonly handshake: Handshake | undefined } {
  let handshake: Handshake | undefined;
  return {
    get handshake() {
      return handshake;
    },
    assertPossible() {},
    isProbe: false,
    onLateProbe,
    async perform(ask, write) {
      const answer = await ask('initialize', params);
      if (answer.result === undefined) throw refusedHandshakeError(answer);
      const version = readStringValue(answer.bytes, findMember(answer.result.shape, 'protocolVersion')) ?? '';
      handshake = { version, result: readRawValue(answer.bytes, answer.result) };
      write(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}\n'));
      onAccepted();
    },
    answer: () => undefined,
    isRedundant: () => false,
  };
}
