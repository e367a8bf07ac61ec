import { composeResult } from '../../../protocol/compose-message.ts';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import type { ServerDefinition } from '../../definition.ts';
import { unsupportedHandshakeError } from '../handshake.ts';
import type { Link, UpstreamCall } from '../link.ts';
import type { OpenedLink } from '../links.ts';
import { discoverParams } from '../stdio/opening.ts';
import { askUpstream } from './ask-upstream.ts';
import { toInitializeResult } from './era-translation.ts';
import { bridgeToModern, type ToModernOptions } from './to-modern.ts';

/** Opens a bridge for a handshake-era client to a modern server. Answers `initialize` from `server/discover`. */
export async function translateHandshake(
  server: ServerDefinition,
  base: Link,
  call: UpstreamCall,
  way: Pick<ToModernOptions, 'binding' | 'onServerMessage'>,
): Promise<OpenedLink> {
  const { message } = call;
  const params = message.params?.shape;
  const discovered = await askUpstream(base, 'server/discover', discoverParams);
  if (discovered.result === undefined) throw unsupportedHandshakeError(message);
  const requested = readStringValue(message.bytes, findMember(params, 'protocolVersion'));
  const result = toInitializeResult(readRawValue(discovered.bytes, discovered.result), requested);
  const raw = (name: string) => {
    const member = findMember(params, name);
    return member === undefined ? undefined : readRawValue(message.bytes, member);
  };
  const link = bridgeToModern({
    server,
    base,
    ...way,
    capabilities: raw('capabilities') ?? '{}',
    clientInfo: raw('clientInfo'),
  });
  const { protocolVersion } = JSON.parse(result) as { protocolVersion: string };
  const reply = { kind: 'message', bytes: composeResult(message.id as string, result), status: 200 } as const;
  return { reply, link, version: protocolVersion };
}
