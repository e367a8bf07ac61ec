import { AmbitError, isAmbitError } from '../../errors.ts';
import { looksLikeJwt } from '../../identity/jwt/verify-jwt.ts';
import type { Keys } from '../../identity/keys.ts';
import {
  anonymousUser,
  type Credential,
  localUser,
  type Principal,
  type UserPrincipal,
} from '../../identity/principal.ts';
import type { PresentedToken } from '../../identity/token.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { RequestBase } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

export interface IdentifyOptions {
  readonly sessions: Sessions;
  readonly keys: Pick<Keys, 'verify'>;
  /** The user that a JWT proves; UNAUTHENTICATED when it proves none. Absent where no issuer is configured. */
  readonly verifyJwt?: ((presented: PresentedToken) => UserPrincipal | Promise<UserPrincipal>) | undefined;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
  readonly log: Log;
}

/** Finds who a credential proves. A promise only where something has to be asked; UNAUTHENTICATED when it proves nobody. */
export type Identify = (credential: Credential) => Principal | Promise<Principal>;

const warnEveryMs = 60_000;

const anonymous = { kind: 'anonymous', userId: anonymousUser } as const;

/**
 * Finds the principal that a credential proves. An entrance may have asked already. A credential that was revoked while
 * the body came in is found here.
 */
export function authenticate(identify: Identify): BeforeStage<RequestBase, { readonly principal: Principal }> {
  return {
    name: 'authenticate',
    refuses: ['UNAUTHENTICATED', 'SESSION_EXPIRED', 'SESSION_ENDED', 'IDENTITY_UNAVAILABLE', 'STORE_UNAVAILABLE'],
    before({ credential, entry }) {
      const principal = identify(credential);
      return principal instanceof Promise ? principal.then(recordPrincipal) : recordPrincipal(principal);

      function recordPrincipal(who: Principal) {
        if (who.kind === 'session') entry.sessionId = who.sessionId;
        if (who.kind !== 'anonymous') entry.userId = who.userId;
        if (who.kind === 'user') entry.keyId = who.keyId;
        return { principal: who };
      }
    },
  };
}

/** The one place where a credential becomes a principal: entrances ask it before they read a body, the pipeline again. */
export function createIdentify(options: IdentifyOptions): Identify {
  const { sessions, keys, verifyJwt, log } = options;
  let warnedAt = -Infinity;

  /** Anonymous where a token that does not verify counts as none. */
  function allowAnonymous(error: unknown, loopback: boolean): Principal {
    const passes = options.onInvalidKey === 'anonymous' && options.anonymous === 'loopback' && loopback;
    if (!passes || !isAmbitError(error) || error.code !== 'UNAUTHENTICATED') throw error;
    // A client sends the same with each request; whoever runs Ambit is told once in a while.
    if (performance.now() - warnedAt >= warnEveryMs) {
      warnedAt = performance.now();
      log.warn('a credential that does not verify is served as anonymous', { reason: error.message });
    }
    return anonymous;
  }

  function verifyCredential(presented: PresentedToken): Principal | Promise<Principal> {
    if (presented.kind === 'ambk') return keys.verify(presented);
    if (verifyJwt !== undefined && looksLikeJwt(presented)) return verifyJwt(presented);
    const session = sessions.prove(presented);
    return session instanceof Promise ? session.then(createSessionPrincipal) : createSessionPrincipal(session);
  }

  return function identify(credential) {
    switch (credential.kind) {
      case 'pipe':
        return { kind: 'local', userId: sessions.get(credential.sessionId)?.userId ?? localUser };
      case 'bearer': {
        const principal = verifyCredential(credential.presented);
        if (!(principal instanceof Promise)) return principal;
        return principal.catch((error) => allowAnonymous(error, credential.loopback));
      }
      case 'none':
        if (options.anonymous === 'loopback' && credential.loopback) return anonymous;
        throw new AmbitError('UNAUTHENTICATED', { what: 'The request carries no credential.' });
    }
  };
}

function createSessionPrincipal({ id, userId }: Session): Principal {
  return { kind: 'session', sessionId: id, userId };
}
