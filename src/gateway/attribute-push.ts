import type { Caller } from '../upstreams/caller.ts';
import type { PendingCall } from '../upstreams/relay/pending.ts';
import { subscriptionKey } from '../upstreams/relay/towards-client.ts';
import type { Sent } from '../upstreams/sent.ts';
import type { Channel } from '../wire/channel.ts';
import { type Member, memberOf, rawAt, stringAt } from '../wire/scan.ts';

/** One way to one caller, and what the message must be called there. */
export interface Target {
  readonly channel: Channel;
  readonly caller: Caller | undefined;
  readonly names: { readonly subscriptionId?: string; readonly progressToken?: string; readonly requestId?: string };
}

const none: readonly Target[] = [];

/** Whom a message from an upstream is for. Only callers of the link's own session can come out of this. */
export function targetsOf(sent: Sent): readonly Target[] {
  const { message } = sent;
  if (message.kind === 'request') return forRequest(sent);
  if (message.method === 'notifications/progress') return forProgress(sent);
  if (message.method === 'notifications/cancelled') return forCancelled(sent);
  const subscription = memberOf(message.meta, subscriptionKey);
  if (subscription !== undefined) return forSubscription(sent, subscription);
  return sent.link.era === 'modern' ? forModern(sent) : forCallers(sent);
}

function forProgress({ message, pending }: Sent): readonly Target[] {
  const token = memberOf(message.params?.shape, 'progressToken');
  const call = token === undefined ? undefined : pending.get(Number(rawAt(message.bytes, token)));
  // A token nobody gave, or of a call already answered: strict clients drop the connection over it.
  if (call?.progressToken === undefined) return none;
  if (!call.lost) call.lastHeardAt = Date.now();
  return [{ channel: call.channel, caller: call.caller, names: { progressToken: call.progressToken } }];
}

function forSubscription({ message, pending }: Sent, subscription: Member): readonly Target[] {
  const call = pending.get(Number(rawAt(message.bytes, subscription)));
  if (call?.method !== 'subscriptions/listen') return none;
  return [{ channel: call.channel, caller: undefined, names: { subscriptionId: call.clientId } }];
}

/** In the modern era these are heard on a listen stream and nowhere else. */
const announcements: ReadonlySet<string> = new Set([
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
]);

function forModern({ message, call, pending }: Sent): readonly Target[] {
  if (announcements.has(message.method)) return none;
  const isLog = message.method === 'notifications/message';
  const found = call ?? pending.youngest((each) => (isLog ? each.wantsLogs : each.method !== 'subscriptions/listen'));
  return found === undefined || (isLog && !found.wantsLogs) ? none : [plain(found)];
}

function forCallers({ message, call, callers }: Sent): readonly Target[] {
  if (call?.caller !== undefined) return [plain(call)];
  let audience = callers;
  if (message.method === 'notifications/resources/updated') {
    const uri = stringAt(message.bytes, memberOf(message.params?.shape, 'uri'));
    audience = callers.filter((caller) => uri !== undefined && caller.subscriptions.has(uri));
  } else if (message.method === 'notifications/message') {
    const busy = callers.filter((caller) => caller.underWay.size > 0);
    if (busy.length > 0) audience = busy;
  }
  return audience.flatMap((caller) => {
    const channel = caller.stream ?? youngestOf(caller);
    return channel === undefined ? [] : [{ channel, caller, names: {} }];
  });
}

/** The id named here is the upstream's: whoever is told must find its own in its place. */
function forCancelled({ message, link, pending, callers }: Sent): readonly Target[] {
  const member = memberOf(message.params?.shape, 'requestId');
  const upstreamId = member === undefined ? '' : rawAt(message.bytes, member);
  if (link.era === 'modern') {
    const call = pending.get(Number(upstreamId));
    return call === undefined ? none : [{ ...plain(call), names: { requestId: call.clientId } }];
  }
  for (const caller of callers) {
    for (const [id, push] of caller.pushes) {
      if (push.upstreamId !== upstreamId) continue;
      caller.pushes.delete(id);
      const channel = youngestOf(caller) ?? caller.stream;
      return channel === undefined ? none : [{ channel, caller, names: { requestId: id } }];
    }
  }
  return none;
}

function forRequest({ link, call, pending, callers }: Sent): readonly Target[] {
  if (link.era === 'modern') return none;
  const asker = call ?? pending.youngest((each) => each.caller !== undefined && !each.channel.isGone());
  if (asker?.caller !== undefined && !asker.channel.isGone()) return [plain(asker)];
  for (const caller of callers) {
    if (caller.stream !== undefined && !caller.stream.isGone()) return [{ channel: caller.stream, caller, names: {} }];
  }
  return none;
}

function plain(call: PendingCall): Target {
  return { channel: call.channel, caller: call.caller, names: {} };
}

function youngestOf(caller: Caller): Channel | undefined {
  let youngest: Channel | undefined;
  for (const channel of caller.underWay) youngest = channel;
  return youngest;
}
