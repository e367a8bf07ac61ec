import type { IncomingMessage } from 'node:http';
import { blankEntry } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { refuseAmbiguousKeys } from '../../wire/envelope-keys.ts';
import { type Message, MessageFault, readMessage } from '../../wire/message.ts';
import { claimedVersion } from '../../wire/modern-envelope.ts';
import { ScanFault, scanArray } from '../../wire/scan.ts';
import { batchVersion } from '../../wire/versions.ts';
import type { Answer } from './answer.ts';
import { arrived, fault, finish, type HttpApproach } from './post.ts';

const maxElements = 64;

/**
 * A JSON-RPC batch. Only revision 2025-03-26 had them, so only a client that negotiated it may send one; then every
 * element walks the corridor by itself, as if it had come alone.
 */
export async function serveBatch(
  gateway: Gateway,
  approach: HttpApproach,
  request: IncomingMessage,
  body: Buffer,
  answer: Answer,
): Promise<void> {
  // Asked through the corridor: to anyone else, what a transport session negotiated would tell that it exists.
  const visited = await gateway.visit({
    ...approach,
    era: 'handshake',
    entry: blankEntry(),
    intent: 'batch',
    channel: answer.channel,
  });
  if (visited.kind === 'refused') {
    finish(gateway, approach.server, request, answer, { ...visited, kind: 'message' });
    return;
  }
  if (visited.kind !== 'known' || visited.version !== batchVersion) {
    fault(answer, 400, 'null', -32600, 'Batches are not part of this protocol version: send one message a request');
    return;
  }
  let messages: Message[];
  try {
    messages = scanArray(body, maxElements).map((element) => {
      const message = readMessage(element);
      refuseAmbiguousKeys(message);
      if (message.method === 'initialize' || claimedVersion(message) !== undefined) {
        throw new MessageFault('this message cannot be part of a batch', false);
      }
      return message;
    });
    if (messages.length === 0) throw new MessageFault('the batch is empty', false);
  } catch (error) {
    if (!(error instanceof MessageFault) && !(error instanceof ScanFault)) throw error;
    fault(answer, 400, 'null', error instanceof ScanFault || error.notJson ? -32700 : -32600, error.message);
    return;
  }
  const replies = await Promise.all(
    messages.map((message) => gateway.serve(arrived(approach, 'handshake', message, answer))),
  );
  const said = replies.flatMap((reply, index) =>
    reply.kind === 'message' && messages[index]?.kind === 'request' ? [reply.bytes] : [],
  );
  answer.tell(replies.flatMap((reply) => (reply.kind === 'message' ? (reply.delivery ?? []) : [])));
  if (said.length === 0) answer.empty(202);
  else if (answer.isStreaming()) {
    for (const bytes of said) answer.channel.emit(bytes);
    answer.empty(200);
  } else answer.finish(joined(said), 200);
}

function joined(elements: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const [index, element] of elements.entries()) parts.push(Buffer.from(index === 0 ? '[' : ','), element);
  parts.push(Buffer.from(']'));
  return Buffer.concat(parts);
}
