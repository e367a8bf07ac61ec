import type { Channel } from '../../protocol/channel.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { SessionExchange } from '../exchange.ts';
import type { TransportStore } from '../sessions/transport-store.ts';
import type { BeforeStage } from '../stage.ts';

/**
 * Restores a transport session that is not known here, because this session opened it before a restart or in another
 * process. `bindTransport` checks it like any other.
 */
export function restoreTransport(callers: Callers, transports: TransportStore): BeforeStage<SessionExchange, void> {
  return {
    name: 'restoreTransport',
    refuses: ['STORE_UNAVAILABLE'],
    isNeeded: ({ era }) => era === 'handshake',
    before(exchange) {
      const { era, transportId, session } = exchange;
      if (era === 'modern' || transportId === undefined || callers.get(transportId) !== undefined) return;
      return transports.restore(session, transportId).then((caller) => {
        // On stdio the connection also carries the messages that belong to no request.
        if (caller !== undefined && exchange.entrance === 'stdio' && 'channel' in exchange) {
          caller.stream = (exchange as SessionExchange & { readonly channel: Channel }).channel;
        }
      });
    },
  };
}
