import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Channel } from '../../protocol/channel.ts';
import { insertMeta } from '../../protocol/insert-meta.ts';
import { applyEdits } from '../../protocol/json/edit.ts';
import { rawAt } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { ownCall } from '../../upstreams/links/bridge/ask-upstream.ts';
import type { Call } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';

/** A call of ours that describes the client as it described itself in its own modern request. */
export function describedCall(request: Message, method: string, params: string, channel?: Channel): Call {
  const call = ownCall(method, params, channel);
  const members = (request.meta?.members ?? []).filter(({ key }) => key.startsWith('io.modelcontextprotocol/'));
  const texts = members.map((member) => `${JSON.stringify(member.key)}:${rawAt(request.bytes, member)}`);
  const message = readMessage(applyEdits(call.message.bytes, [insertMeta(call.message, texts.join(','))]));
  return { ...call, message };
}

export function askAsModern(links: Links, session: Session, server: ServerDefinition, request: Message): AskServer {
  return async (method, params) => {
    const reply = await links.modern(session, server, {
      ...describedCall(request, method, params),
      acting: { session, correlationId: randomUUID() },
    });
    if (reply.kind !== 'message') throw new AmbitError('UPSTREAM_FAILED');
    return readMessage(reply.bytes);
  };
}
