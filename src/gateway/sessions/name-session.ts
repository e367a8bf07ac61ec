import type { Reply } from '../../protocol/channel.ts';
import { insertResultMeta } from '../../protocol/insert-meta.ts';
import { applyEdits } from '../../protocol/json/edit.ts';
import { readMessage } from '../../protocol/message.ts';

const sessionKey = 'ambit/session';

/** Tells the client, in the `_meta` of a result, which session and which exchange it was; the rest stays as it is. */
export function namingSession(reply: Reply, sessionId: string, correlationId: string): Reply {
  if (reply.kind !== 'message') return reply;
  const facts = JSON.stringify({ sessionId, correlationId });
  const edit = insertResultMeta(readMessage(reply.bytes), `"${sessionKey}":${facts}`);
  return edit === undefined ? reply : { ...reply, bytes: applyEdits(reply.bytes, [edit]) };
}
