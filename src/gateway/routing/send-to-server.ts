import type { Reply } from '../../protocol/channel.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Call } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import type { Acting } from '../../upstreams/links/relay/context-attacher.ts';
import type { Prepared, ToServer } from '../exchange.ts';
import { changesSubscription, requestSubscription } from '../lists/request-subscription.ts';
import type { RecheckCall } from '../recheck-call.ts';
import { timeUpstream } from '../time-upstream.ts';
import { allServers } from './for-all.ts';
import { namingAskers } from './naming-askers.ts';
import type { ServerCallers } from './server-callers.ts';

export interface SendParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly serverCallers: ServerCallers;
  readonly recheckCall: RecheckCall;
}

/** Sends a request to its server and returns the answer. `shown` is what the client calls the resource. */
export type SendToServer = (exchange: ToServer, shown?: string) => Promise<Reply>;

export function createSendToServer({ links, callers, serverCallers, recheckCall }: SendParts): SendToServer {
  async function sendTo(exchange: ToServer, server: ServerDefinition, shown: string | undefined): Promise<Reply> {
    const confirm = recheckCall(exchange, server, exchange.outgoing);
    const isForAllServers = exchange.server === allServers;
    if (exchange.era === 'modern') {
      const reply = links.modern(exchange.session, server, callOf(exchange, exchange.caller, confirm));
      return isForAllServers ? namingAskers(await reply, server.name) : reply;
    }
    const caller = await serverCallers.find(exchange, server);
    const call = callOf(exchange, caller, confirm);
    return changesSubscription(call.message.method)
      ? requestSubscription(callers, call, caller, shown)
      : caller.link.request(call);
  }

  return (exchange, shown) => {
    const { upstream, era, trace, caller } = exchange;
    if (upstream.kind === 'in-process') return upstream.links[era].request(callOf(exchange, caller));
    if (trace?.upstreamSpanId === undefined) return sendTo(exchange, upstream, shown);
    return timeUpstream(exchange, upstream.name, () => sendTo(exchange, upstream, shown));
  };
}

/** The exchange as its link takes it. `caller` is the client of that very server. */
export function callOf(exchange: Prepared, caller: Caller | undefined, confirm?: Acting['confirm']): Call {
  const { outgoing, edits, channel, headers, session, principal, correlationId, trace, entry } = exchange;
  return {
    message: outgoing,
    edits,
    channel,
    headers,
    caller,
    acting: { session, principal, correlationId, trace, confirm, entry },
    cancelOnGone: exchange.era === 'modern',
    namesAsker: exchange.server === allServers,
  };
}
