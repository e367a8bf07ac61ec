import type { Channel } from '../../protocol/channel.ts';
import { findMember, type JsonMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import type { QuestionTarget, ServerMessage } from '../../upstreams/links/link.ts';
import { subscriptionKey } from '../../upstreams/links/relay/towards-client.ts';
import { type Binding, bindToSession } from '../../upstreams/links/relay/towards-upstream.ts';

/** A caller that gets a server message, its channel, and the names to use there. */
export interface PushTarget {
  readonly channel: Channel;
  readonly caller: Caller | undefined;
  /** The session that may read the message. */
  readonly binding: Binding;
  readonly names: {
    readonly subscriptionId?: string;
    readonly progressToken?: string;
    readonly requestId?: string;
    /** The caller's name of the updated resource. */
    readonly uri?: string;
  };
}

const noTargets: readonly PushTarget[] = [];

/**
 * Finds the receivers of a server message. They always belong to the session of the link. If a process has served
 * several sessions, a message that names no call has no receiver, unless it only says that a list changed.
 */
export function findTargets(sent: ServerMessage): readonly PushTarget[] {
  const { message } = sent;
  if (message.kind === 'request') return findRequestTargets(sent);
  if (message.method === 'notifications/progress') return findProgressTargets(sent);
  if (message.method === 'notifications/cancelled') return findCancelledTargets(sent);
  const subscription = findMember(message.meta, subscriptionKey);
  if (subscription !== undefined) return findSubscriptionTargets(sent, subscription);
  if (sent.soleSessionId === null && !announcementMethods.has(message.method)) return noTargets;
  return sent.link.era === 'modern' ? findModernTargets(sent) : findCallerTargets(sent);
}

function findProgressTargets({ message, pending }: ServerMessage): readonly PushTarget[] {
  const token = findMember(message.params?.shape, 'progressToken');
  const call = token === undefined ? undefined : pending.get(Number(readRawValue(message.bytes, token)));
  // Strict clients drop the connection over an unknown token or one of an answered call.
  if (call?.progressToken === undefined) return noTargets;
  if (!call.isLost) call.lastHeardAt = Date.now();
  return [{ ...createCallTarget(call), names: { progressToken: call.progressToken } }];
}

function findSubscriptionTargets({ message, pending }: ServerMessage, subscription: JsonMember): readonly PushTarget[] {
  const call = pending.get(Number(readRawValue(message.bytes, subscription)));
  if (call?.method !== 'subscriptions/listen') return noTargets;
  return [{ ...createCallTarget(call), caller: undefined, names: { subscriptionId: call.clientId } }];
}

/** The notifications that modern clients get only on a listen stream. */
export const announcementMethods: ReadonlySet<string> = new Set([
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
]);

function findModernTargets({ message, call, pending }: ServerMessage): readonly PushTarget[] {
  if (announcementMethods.has(message.method)) return noTargets;
  const isLog = message.method === 'notifications/message';
  const found =
    call ?? pending.findYoungest((each) => (isLog ? each.wantsLogs : each.method !== 'subscriptions/listen'));
  return found === undefined || (isLog && !found.wantsLogs) ? noTargets : [createCallTarget(found)];
}

function findCallerTargets(sent: ServerMessage): readonly PushTarget[] {
  const { message, call } = sent;
  const uri =
    message.method === 'notifications/resources/updated'
      ? (readStringValue(message.bytes, findMember(message.params?.shape, 'uri')) ?? '')
      : undefined;
  if (call?.caller !== undefined) return uri === undefined ? [createCallTarget(call)] : findUpdateTargets(call, uri);
  const callers = announcementMethods.has(message.method) ? sent.callers : findSoleCallers(sent);
  let audience = callers;
  if (uri !== undefined) audience = callers.filter((caller) => caller.subscriptions.has(uri));
  else if (message.method === 'notifications/message') {
    const busy = callers.filter((caller) => caller.openChannels.size > 0);
    if (busy.length > 0) audience = busy;
  }
  return audience.flatMap((caller) => {
    const channel = pickChannel(caller);
    if (channel === undefined) return [];
    const shown = uri === undefined ? undefined : caller.subscriptions.get(uri);
    const target = createCallerTarget(sent, caller, channel);
    return [shown === undefined ? target : { ...target, names: { uri: shown } }];
  });
}

/**
 * Finds the receiver of an update that came in the answer to a call. A client of all servers gets it only under the name
 * that it subscribed to: the server's own address could be that of another server there.
 */
function findUpdateTargets(call: QuestionTarget, uri: string): readonly PushTarget[] {
  const shown = call.caller?.subscriptions.get(uri);
  if (shown !== undefined) return [{ ...createCallTarget(call), names: { uri: shown } }];
  return call.caller?.parent === undefined ? [createCallTarget(call)] : noTargets;
}

/** Replaces the server's request id by the client's. */
function findCancelledTargets(sent: ServerMessage): readonly PushTarget[] {
  const { message, link, pending, callers } = sent;
  const member = findMember(message.params?.shape, 'requestId');
  const upstreamId = member === undefined ? '' : readRawValue(message.bytes, member);
  if (link.era === 'modern') {
    const call = pending.get(Number(upstreamId));
    return call === undefined ? noTargets : [{ ...createCallTarget(call), names: { requestId: call.clientId } }];
  }
  for (const caller of callers) {
    for (const [id, push] of caller.pushes) {
      if (push.upstreamId !== upstreamId || push.link !== link) continue;
      caller.pushes.delete(id);
      const channel = findYoungestChannel(caller) ?? caller.stream;
      return channel === undefined
        ? noTargets
        : [{ ...createCallerTarget(sent, caller, channel), names: { requestId: id } }];
    }
  }
  return noTargets;
}

function findRequestTargets(sent: ServerMessage): readonly PushTarget[] {
  const { link, call, pending, target: asking } = sent;
  if (asking !== undefined) return asking.channel.isGone() ? noTargets : [createCallTarget(asking)];
  if (link.era === 'modern' || sent.soleSessionId === null) return noTargets;
  const asker = call ?? pending.findYoungest((each) => each.caller !== undefined && !each.channel.isGone());
  if (asker?.caller !== undefined && !asker.channel.isGone()) return [createCallTarget(asker)];
  for (const caller of findSoleCallers(sent)) {
    if (caller.stream !== undefined && !caller.stream.isGone())
      return [createCallerTarget(sent, caller, caller.stream)];
  }
  return noTargets;
}

function createCallTarget(call: QuestionTarget): PushTarget {
  return { channel: call.channel, caller: call.caller, binding: call.binding, names: {} };
}

function createCallerTarget({ binding }: ServerMessage, caller: Caller, channel: Channel): PushTarget {
  return { channel, caller, binding: bindToSession(binding, caller.sessionId), names: {} };
}

/** Finds the callers of the only session that the process has served. */
function findSoleCallers({ callers, soleSessionId: sole }: ServerMessage): readonly Caller[] {
  return sole === undefined ? callers : callers.filter(({ sessionId }) => sessionId === sole);
}

/** Picks the standing stream, or an open request while the client has lost that stream. */
function pickChannel(caller: Caller): Channel | undefined {
  const { stream } = caller;
  if (stream !== undefined && stream.isAway?.() !== true) return stream;
  const youngest = findYoungestChannel(caller);
  return youngest === undefined || youngest.isAway?.() === true ? (stream ?? youngest) : youngest;
}

function findYoungestChannel(caller: Caller): Channel | undefined {
  let youngest: Channel | undefined;
  for (const channel of caller.openChannels) youngest = channel;
  return youngest;
}
