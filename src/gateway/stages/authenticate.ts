import { AmbitError } from '../../errors.ts';
import { anonymousUser, localUser } from '../../identity/principal.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Stage } from '../chain.ts';
import type { Approach, Identified } from '../exchange.ts';

export interface AuthenticateOptions {
  readonly sessions: Sessions;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
}

/** Second on the inward corridor: from a credential to a principal that is proven. */
export function authenticate<E extends Approach, Out>(options: AuthenticateOptions): Stage<E, Identified<E>, Out> {
  const { sessions } = options;
  return async function authenticate(exchange, next) {
    const { credential, entry } = exchange;
    switch (credential.kind) {
      case 'pipe': {
        entry.userId = sessions.get(credential.sessionId)?.userId ?? localUser;
        return next({ ...exchange, principal: { kind: 'local', userId: entry.userId } });
      }
      case 'bearer': {
        const session = sessions.prove(credential.token);
        entry.sessionId = session.id;
        entry.userId = session.userId;
        return next({ ...exchange, principal: { kind: 'session', sessionId: session.id, userId: session.userId } });
      }
      case 'none': {
        if (options.anonymous === 'loopback' && credential.loopback) {
          return next({ ...exchange, principal: { kind: 'anonymous', userId: anonymousUser } });
        }
        throw new AmbitError('UNAUTHENTICATED', { what: 'The request carries no credential.' });
      }
    }
  };
}
