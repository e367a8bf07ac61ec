import { insertMeta } from '../../../protocol/insert-meta.ts';
import { type Edit, removeMembers } from '../../../protocol/json/edit.ts';
import type { Message } from '../../../protocol/message.ts';
import { modernVersion } from '../../../protocol/versions.ts';

const envelopeKeys = new Set([
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/logLevel',
]);

/** Takes a modern request's description of itself out: a server of the handshake era has had it in `initialize`. */
export function withoutEnvelope(message: Message): Edit[] {
  return message.meta === undefined ? [] : removeMembers(message.meta, (member) => envelopeKeys.has(member.key));
}

export interface Envelope {
  /** JSON texts, as the client wrote them in `initialize`. */
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  readonly logLevel: string | undefined;
}

/** Adds to a handshake-era request what a modern server wants to read in each. */
export function withEnvelope(message: Message, envelope: Envelope): Edit[] {
  const members = [
    `"io.modelcontextprotocol/protocolVersion":"${modernVersion}"`,
    `"io.modelcontextprotocol/clientCapabilities":${envelope.capabilities}`,
    ...(envelope.clientInfo === undefined ? [] : [`"io.modelcontextprotocol/clientInfo":${envelope.clientInfo}`]),
    ...(envelope.logLevel === undefined
      ? []
      : [`"io.modelcontextprotocol/logLevel":${JSON.stringify(envelope.logLevel)}`]),
  ].join(',');
  return [insertMeta(message, members)];
}
