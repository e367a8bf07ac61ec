import { emptyJournalDraft } from '../../gateway/exchange.ts';
import { refuseAmbiguousKeys } from '../../protocol/ambiguous-keys.ts';
import { ScanError, scanArray } from '../../protocol/json/scan.ts';
import { type Message, MessageError, maxClientValues, readClientMessage } from '../../protocol/message.ts';
import { readClaimedVersion } from '../../protocol/modern-envelope.ts';
import { batchVersion } from '../../protocol/versions.ts';
import { createHttpExchange, type HttpRequestBase, type PostRequest, refusePost, sendReply } from './serve-post.ts';

const maxElements = 64;

/**
 * Serves a JSON-RPC batch. Only revision 2025-03-26 has batches, so only clients that negotiated it may send one. Each
 * message passes the pipeline on its own.
 */
export async function serveBatch(post: PostRequest, base: HttpRequestBase, body: Buffer): Promise<void> {
  const { gateway, request, answer } = post;
  // The pipeline checks the caller first: a stranger must not learn that a transport session exists.
  const result = await gateway.handleTransport({
    ...base,
    era: 'handshake',
    entry: emptyJournalDraft(),
    intent: 'batch',
    channel: answer.channel,
  });
  if (result.kind === 'refused') {
    sendReply(gateway, base.server, request, answer, { ...result, kind: 'message' });
    return;
  }
  if (result.kind !== 'known' || result.version !== batchVersion) {
    const message = 'This protocol version has no batches: send one message per request';
    refusePost(post, { event: 'batch', status: 400, rpc: -32600, message });
    return;
  }
  let messages: Message[];
  try {
    messages = scanArray(body, maxElements, maxClientValues).map((element) => {
      const message = readClientMessage(element);
      refuseAmbiguousKeys(message);
      if (message.method === 'initialize' || readClaimedVersion(message) !== undefined) {
        throw new MessageError('this message cannot be part of a batch', false);
      }
      return message;
    });
    if (messages.length === 0) throw new MessageError('the batch is empty', false);
  } catch (error) {
    if (!(error instanceof MessageError) && !(error instanceof ScanError)) throw error;
    const rpc = error instanceof ScanError || error.isNotJson ? -32700 : -32600;
    refusePost(post, { event: 'message', status: 400, rpc, message: error.message });
    return;
  }
  const replies = await Promise.all(
    messages.map((message) => gateway.serve(createHttpExchange(base, 'handshake', message, answer))),
  );
  const said = replies.flatMap((reply, index) =>
    reply.kind === 'message' && messages[index]?.kind === 'request' ? [reply.bytes] : [],
  );
  answer.reportDelivery(replies.flatMap((reply) => (reply.kind === 'message' ? (reply.delivery ?? []) : [])));
  if (said.length === 0) answer.finishEmpty(202);
  else if (answer.isStreaming()) {
    for (const bytes of said) answer.channel.emit(bytes);
    answer.finishEmpty(200);
  } else answer.finish(joinElements(said), 200);
}

function joinElements(elements: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const [index, element] of elements.entries()) parts.push(Buffer.from(index === 0 ? '[' : ','), element);
  parts.push(Buffer.from(']'));
  return Buffer.concat(parts);
}
