import type { ServerDefinition } from '../../upstreams/definition.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, AuthorizedForAll, InSession } from '../exchange.ts';

/** `authorize` at the address of all servers: which of them this session may use. */
export function authorizeAll<E extends Approach, Out>(
  servers: () => ReadonlyMap<string, ServerDefinition>,
): Stage<InSession<E>, AuthorizedForAll<E>, Out> {
  return function authorizeAll(exchange, next) {
    const available = [...servers().values()].filter((server) => server.trust.includes(exchange.session.trustLevel));
    return next(widen(exchange, { available: available as readonly ServerDefinition[] }));
  };
}
