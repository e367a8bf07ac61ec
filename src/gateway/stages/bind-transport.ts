import type { Caller, Callers } from '../../upstreams/caller.ts';
import { type Stage, widen } from '../chain.ts';
import type { InSession } from '../exchange.ts';
import { missingTransport, unknownTransport } from './resolve-session.ts';

/**
 * Sixth on the inward corridor: in the handshake era, the transport session must be one that this very session
 * opened for this very server, whatever the credential. It is checked, never trusted.
 */
export function bindTransport<E extends InSession, Out>(
  callers: Callers,
  opens: (exchange: E) => boolean,
): Stage<E, E & { readonly caller: Caller | undefined }, Out> {
  return function bindTransport(exchange, next) {
    if (exchange.era === 'modern') return next(widen(exchange, { caller: undefined as Caller | undefined }));
    const opening = opens(exchange);
    if (exchange.transportId === undefined) {
      if (opening) return next(widen(exchange, { caller: undefined as Caller | undefined }));
      throw missingTransport();
    }
    const caller = callers.get(exchange.transportId);
    if (caller === undefined || caller.sessionId !== exchange.session.id || caller.server !== exchange.server) {
      throw unknownTransport();
    }
    caller.lastActiveAt = Date.now();
    return next(widen(exchange, { caller: (opening ? undefined : caller) as Caller | undefined }));
  };
}
