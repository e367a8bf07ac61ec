import { accepted, type Reply } from '../../protocol/channel.ts';
import { type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, rawAt } from '../../protocol/json/scan.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import type { Arrived } from '../exchange.ts';

type WithCaller = Arrived & { readonly caller: Caller | undefined; readonly edits: readonly Edit[] };

/** An answer to a push. Only the caller that was asked can give it, once. */
export function answerPush(exchange: WithCaller): Reply {
  const { message, caller } = exchange;
  const push = caller?.pushes.get(message.id ?? '');
  if (caller === undefined || push === undefined) return accepted;
  caller.pushes.delete(message.id as string);
  push.link.answer(push.upstreamId, message, exchange.edits, caller.sessionId);
  return accepted;
}

/** Progress on something the upstream asked for: it goes on under the name the upstream gave it. */
export function progressOfPush(exchange: WithCaller): Reply {
  const { message, caller, channel, headers } = exchange;
  const token = memberOf(message.params?.shape, 'progressToken');
  const push = token === undefined ? undefined : caller?.pushes.get(rawAt(message.bytes, token));
  if (token === undefined || push?.progressToken === undefined) return accepted;
  const edits = [...exchange.edits, replaceValue(token, push.progressToken)];
  push.link.notify({ message, edits, channel, headers, caller, acting: undefined, cancelOnGone: false });
  return accepted;
}
