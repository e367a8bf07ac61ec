import type { Caller, Callers } from '../../upstreams/caller.ts';
import type { Call } from '../../upstreams/link.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Acting } from '../../upstreams/relay/teller.ts';
import { accepted, type Reply } from '../../wire/channel.ts';
import { applyEdits } from '../../wire/edit.ts';
import { readMessage } from '../../wire/message.ts';
import { memberOf, rawAt } from '../../wire/scan.ts';
import type { Next } from '../chain.ts';
import type { ConfirmCall } from '../confirm-call.ts';
import type { Prepared } from '../exchange.ts';
import type { RememberedTransports } from '../remembered-transports.ts';
import { changesSubscription, requestSubscription } from '../request-subscription.ts';
import { timeUpstream } from '../time-upstream.ts';
import { answerPush, progressOfPush } from './answer-push.ts';

/** The end of the inward corridor: the message goes to its upstream, and the upstream's answer comes back. */
export function forward(
  callers: Callers,
  links: Links,
  remember: RememberedTransports['remember'],
  confirmCall: ConfirmCall,
): Next<Prepared, Reply> {
  function request(exchange: Prepared): Promise<Reply> {
    const { caller } = exchange;
    const { message, upstream } = exchange;
    // A handshake says nothing for the session, and others may wait for the same one.
    const confirm = message.method === 'initialize' ? undefined : confirmCall(exchange, upstream, message);
    const call = callOf(exchange, confirm);
    if (exchange.era === 'modern') return links.modern(exchange.session, exchange.upstream, call);
    return caller === undefined ? initialize(exchange, call) : requestOf(caller, exchange, call);
  }

  function requestOf(caller: Caller, exchange: Prepared, call: Call): Promise<Reply> {
    const subscribes = changesSubscription(exchange.message.method);
    return subscribes ? requestSubscription(callers, call, caller) : caller.link.request(call);
  }

  async function initialize(exchange: Prepared, call: Call): Promise<Reply> {
    const { reply, link, version } = await links.handshake(exchange.session, exchange.upstream, call);
    if (version === undefined) return reply;
    const { id: sessionId, workspaceId } = exchange.session;
    const initialize = readMessage(applyEdits(exchange.message.bytes, exchange.edits));
    const caller = callers.open({ sessionId, workspaceId, server: exchange.upstream.name, version, link, initialize });
    if (exchange.entrance === 'stdio') caller.stream = exchange.channel;
    await remember(caller);
    return reply.kind === 'message' ? { ...reply, transportId: caller.id } : reply;
  }

  function notify(exchange: Prepared): Reply {
    const { message, caller, session, upstream } = exchange;
    if (message.method === 'notifications/cancelled') {
      const requestId = memberOf(message.params?.shape, 'requestId');
      if (requestId === undefined) return accepted;
      for (const link of links.of(session.id, upstream.name)) {
        link.cancel(caller ?? exchange.channel.owner, rawAt(message.bytes, requestId), message);
      }
      return accepted;
    }
    if (caller === undefined) {
      if (exchange.era === 'modern') links.notifyModern(session, upstream, callOf(exchange));
      return accepted;
    }
    if (message.method === 'notifications/progress') return progressOfPush(exchange);
    caller.link.notify(callOf(exchange));
    return accepted;
  }

  return async function forward(exchange) {
    const { message } = exchange;
    if (message.kind === 'request') {
      if (exchange.trace?.upstreamSpanId === undefined) return request(exchange);
      return timeUpstream(exchange, exchange.upstream.name, () => request(exchange));
    }
    return message.kind === 'notification' ? notify(exchange) : answerPush(exchange);
  };
}

export function callOf(exchange: Prepared, confirm?: Acting['confirm']): Call {
  const { message, edits, channel, headers, caller, session, correlationId, trace, entry } = exchange;
  const acting = { session, correlationId, trace, confirm, entry };
  return { message, edits, channel, headers, caller, acting, cancelOnGone: exchange.era === 'modern' };
}
