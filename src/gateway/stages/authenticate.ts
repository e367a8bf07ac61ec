import type { Principal } from '../../identity/principal.ts';
import type { Approach } from '../exchange.ts';
import type { Identify } from '../identify.ts';
import type { BeforeStage } from '../stage.ts';

/**
 * Finds the principal that a credential proves. An entrance may have asked already. A credential that was revoked while
 * the body came in is found here.
 */
export function authenticate(identify: Identify): BeforeStage<Approach, { readonly principal: Principal }> {
  return {
    name: 'authenticate',
    refuses: ['UNAUTHENTICATED', 'SESSION_EXPIRED', 'SESSION_ENDED', 'IDENTITY_UNAVAILABLE', 'STORE_UNAVAILABLE'],
    before({ credential, entry }) {
      const principal = identify(credential);
      return principal instanceof Promise ? principal.then(noted) : noted(principal);

      function noted(who: Principal) {
        if (who.kind === 'session') entry.sessionId = who.sessionId;
        if (who.kind !== 'anonymous') entry.userId = who.userId;
        if (who.kind === 'user') entry.keyId = who.keyId;
        return { principal: who };
      }
    },
  };
}
