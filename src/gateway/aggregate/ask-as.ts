import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import { ownCall } from '../../upstreams/bridge/ask-upstream.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Call } from '../../upstreams/link.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Channel } from '../../wire/channel.ts';
import { applyEdits } from '../../wire/edit.ts';
import { insertMeta } from '../../wire/insert-meta.ts';
import { type Message, readMessage } from '../../wire/message.ts';
import { rawAt } from '../../wire/scan.ts';

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
