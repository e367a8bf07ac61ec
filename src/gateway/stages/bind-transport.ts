import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';
import { missingTransportError, unknownTransportError } from './resolve-session.ts';

/**
 * Finds the handshake-era client of a transport session. The same session must have opened it for the same server,
 * whatever the credential is: the id of a transport session proves nothing.
 */
export function bindTransport<E extends SessionExchange>(
  callers: Callers,
  opensTransport: (exchange: E) => boolean,
): BeforeStage<E, { readonly caller: Caller | undefined }> {
  return {
    name: 'bindTransport',
    refuses: [-32000, -32001],
    isNeeded: ({ era }) => era === 'handshake',
    before(exchange) {
      const { era, transportId, session, server } = exchange;
      if (era === 'modern') return { caller: undefined };
      const opens = opensTransport(exchange);
      if (transportId === undefined) {
        if (opens) return { caller: undefined };
        throw missingTransportError();
      }
      const caller = callers.get(transportId);
      if (caller === undefined || caller.sessionId !== session.id || caller.server !== server)
        throw unknownTransportError();
      caller.lastActiveAt = Date.now();
      return { caller: opens ? undefined : caller };
    },
  };
}
