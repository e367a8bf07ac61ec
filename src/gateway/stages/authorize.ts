import { StaleSession } from '../../sessions/grants.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Authorized, InSession } from '../exchange.ts';
import { notAvailable, type Resolution } from '../resolution.ts';

/** Fifth on the inward corridor: may this session use this server? Unknown and not permitted look alike. */
export function authorize<E extends Approach, Out>(resolution: Resolution): Stage<InSession<E>, Authorized<E>, Out> {
  return function authorize(exchange, next) {
    const decidedAt = resolution.revision();
    const found = resolution.find(exchange.session, exchange.server);
    if (found.server !== undefined) return next(widen(exchange, { decidedAt, upstream: found.server }));
    if (!resolution.holds(exchange.session)) throw new StaleSession();
    // The journal says which; the caller is not told.
    if (found.removal !== undefined) exchange.entry.rule = found.removal.rule;
    throw notAvailable(exchange.server);
  };
}
