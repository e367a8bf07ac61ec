import type { Reply } from '../../protocol/channel.ts';
import { resultMessage } from '../../protocol/compose-message.ts';
import { memberOf, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Call } from '../../upstreams/links/link.ts';
import { assertRoomFor } from './subscription-room.ts';

/** Whether a handshake-era request changes what its client is subscribed to. */
export function changesSubscription(method: string): boolean {
  return method === 'resources/subscribe' || method === 'resources/unsubscribe';
}

/**
 * Passes on such a request of a client, at whatever address it came in. Clients of one process share its subscriptions:
 * the last one to leave says goodbye. `shown` is what the client calls the resource.
 */
export async function requestSubscription(
  callers: Callers,
  call: Call,
  caller: Caller,
  shown?: string,
): Promise<Reply> {
  const { message } = call;
  const uri = stringAt(message.bytes, memberOf(message.params?.shape, 'uri')) ?? '';
  if (message.method === 'resources/subscribe') return subscribe(call, caller, uri, shown ?? uri);
  caller.subscriptions.delete(uri);
  const isShared = callers.ofLink(caller.link).some((other) => other !== caller && other.subscriptions.has(uri));
  if (isShared) return { kind: 'message', bytes: resultMessage(message.id as string, '{}'), status: 200 };
  return caller.link.request(call);
}

async function subscribe(call: Call, caller: Caller, uri: string, shown: string): Promise<Reply> {
  const before = caller.subscriptions.get(uri);
  assertRoomFor(caller, uri);
  // Before the answer: the first update may come together with it.
  caller.subscriptions.set(uri, shown);
  let isTaken = false;
  try {
    const reply = await caller.link.request(call);
    isTaken = reply.kind === 'message' && readMessage(reply.bytes).error === undefined;
    return reply;
  } finally {
    if (!isTaken && before === undefined) caller.subscriptions.delete(uri);
  }
}
