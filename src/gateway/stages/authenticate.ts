import type { Principal } from '../../identity/principal.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Identified } from '../exchange.ts';
import type { Identify } from '../identify.ts';

/**
 * Second on the inward corridor: from a credential to a principal that is proven. An entrance may have asked already;
 * a credential that was revoked while the body came in is found here.
 */
export function authenticate<E extends Approach, Out>(identify: Identify): Stage<E, Identified<E>, Out> {
  return function authenticate(exchange, next) {
    const { credential, entry } = exchange;
    const principal = identify(credential);
    return principal instanceof Promise ? principal.then(proven) : proven(principal);

    function proven(who: Principal): Promise<Out> {
      if (who.kind === 'session') entry.sessionId = who.sessionId;
      if (who.kind !== 'anonymous') entry.userId = who.userId;
      if (who.kind === 'user') entry.keyId = who.keyId;
      return next(widen(exchange, { principal: who }));
    }
  };
}
