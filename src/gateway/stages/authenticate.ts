import type { Keys } from '../../directory/keys.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { looksLikeJwt } from '../../identity/jwt/verify-jwt.ts';
import { anonymousUser, localUser, type Principal, type UserPrincipal } from '../../identity/principal.ts';
import type { PresentedToken } from '../../identity/token.ts';
import type { Log } from '../../log.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Identified } from '../exchange.ts';

export interface AuthenticateOptions {
  readonly sessions: Sessions;
  readonly keys: Pick<Keys, 'verify'>;
  /** The user that a JWT proves; UNAUTHENTICATED when it proves none. Absent where no issuer is configured. */
  readonly verifyJwt?: ((presented: PresentedToken) => UserPrincipal | Promise<UserPrincipal>) | undefined;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
  readonly log: Log;
}

const remarkEveryMs = 60_000;

/** Second on the inward corridor: from a credential to a principal that is proven. */
export function authenticate<E extends Approach, Out>(options: AuthenticateOptions): Stage<E, Identified<E>, Out> {
  const { sessions, keys, verifyJwt, log } = options;
  const anonymous = { kind: 'anonymous', userId: anonymousUser } as const;
  let remarkedAt = -Infinity;

  /** Anonymous where a token that does not verify counts as none. */
  function lenient(error: unknown, loopback: boolean): Principal {
    const passes = options.onInvalidKey === 'anonymous' && options.anonymous === 'loopback' && loopback;
    if (!passes || !isAmbitError(error) || error.code !== 'UNAUTHENTICATED') throw error;
    // A client sends the same with each request; whoever runs Ambit is told once in a while.
    if (performance.now() - remarkedAt >= remarkEveryMs) {
      remarkedAt = performance.now();
      log.warn('a credential that does not verify is served as anonymous', { reason: error.message });
    }
    return anonymous;
  }

  /** A promise only where something has to be asked. */
  function prove(presented: PresentedToken): Principal | Promise<Principal> {
    if (presented.kind === 'ambk') return keys.verify(presented);
    if (verifyJwt !== undefined && looksLikeJwt(presented)) return verifyJwt(presented);
    const session = sessions.prove(presented);
    return session instanceof Promise ? session.then(ofSession) : ofSession(session);
  }

  return function authenticate(exchange, next) {
    const { credential, entry } = exchange;
    switch (credential.kind) {
      case 'pipe': {
        entry.userId = sessions.get(credential.sessionId)?.userId ?? localUser;
        return next(widen(exchange, { principal: { kind: 'local', userId: entry.userId } }));
      }
      case 'bearer': {
        const principal = prove(credential.presented);
        if (!(principal instanceof Promise)) return proven(principal);
        return principal.catch((error) => lenient(error, credential.loopback)).then(proven);
      }
      case 'none': {
        if (options.anonymous === 'loopback' && credential.loopback) {
          return next(widen(exchange, { principal: anonymous }));
        }
        throw new AmbitError('UNAUTHENTICATED', { what: 'The request carries no credential.' });
      }
    }

    function proven(principal: Principal): Promise<Out> {
      if (principal.kind === 'session') entry.sessionId = principal.sessionId;
      if (principal.kind !== 'anonymous') entry.userId = principal.userId;
      if (principal.kind === 'user') entry.keyId = principal.keyId;
      return next(widen(exchange, { principal }));
    }
  };
}

function ofSession({ id, userId }: Session): Principal {
  return { kind: 'session', sessionId: id, userId };
}
