import { isAmbitError } from '../../../errors.ts';
import type { FinalReply } from '../../../protocol/channel.ts';
import { composeResult } from '../../../protocol/compose-message.ts';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';
import { EraError } from '../../../protocol/protocol-error.ts';
import { handshakeVersions, modernVersion } from '../../../protocol/versions.ts';
import { type EraDoubt, type EraVerdicts, setVerdict } from '../era-verdicts.ts';
import { refusedHandshakeError, repeatableParams } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import { wasKilled } from '../upstream-errors.ts';

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
