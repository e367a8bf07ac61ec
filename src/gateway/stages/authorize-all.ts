import { StaleSession } from '../../sessions/grants.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, AuthorizedForAll, InSession } from '../exchange.ts';
import type { Resolution } from '../resolution.ts';

/** `authorize` at the address of all servers: which of them this session may use. */
export function authorizeAll<E extends Approach, Out>(
  resolution: Resolution,
): Stage<InSession<E>, AuthorizedForAll<E>, Out> {
  return function authorizeAll(exchange, next) {
    if (!resolution.holds(exchange.session)) throw new StaleSession();
    const decidedAt = resolution.revision();
    return next(widen(exchange, { decidedAt, available: resolution.available(exchange.session) }));
  };
}
