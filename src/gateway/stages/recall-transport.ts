import type { Callers } from '../../upstreams/caller.ts';
import type { Channel } from '../../wire/channel.ts';
import type { Stage } from '../chain.ts';
import type { Approach, InSession } from '../exchange.ts';
import type { RememberedTransports } from '../remembered-transports.ts';

/**
 * After `resolve-session`: a transport session that is not known here may be one that this session opened before a
 * restart, or in another process. What it may do is checked further on, as for any other.
 */
export function recallTransport<E extends InSession<Approach>, Out>(
  callers: Callers,
  remembered: RememberedTransports,
): Stage<E, E, Out> {
  return function recallTransport(exchange, next) {
    const { era, transportId, session } = exchange;
    if (era === 'modern' || transportId === undefined || callers.get(transportId) !== undefined) return next(exchange);
    return remembered.recall(session, transportId).then((caller) => {
      // On stdio the one connection is also the way for what no request waits for.
      if (caller !== undefined && exchange.entrance === 'stdio' && 'channel' in exchange) {
        caller.stream = (exchange as E & { readonly channel: Channel }).channel;
      }
      return next(exchange);
    });
  };
}
