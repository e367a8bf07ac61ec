import { AmbitError } from '../../errors.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Authorized, InSession } from '../exchange.ts';

/** Fourth on the inward corridor: may this session use this server? Unknown and not permitted look alike. */
export function authorize<E extends Approach, Out>(
  servers: () => ReadonlyMap<string, ServerDefinition>,
): Stage<InSession<E>, Authorized<E>, Out> {
  return function authorize(exchange, next) {
    const upstream = servers().get(exchange.server);
    if (upstream === undefined || !upstream.trust.includes(exchange.session.trustLevel)) {
      if (upstream !== undefined) exchange.entry.rule = `servers.${upstream.name}.trust`;
      throw new AmbitError('SERVER_NOT_AVAILABLE', {
        what: `No server "${exchange.server}" is available to this session.`,
      });
    }
    return next(widen(exchange, { upstream }));
  };
}
