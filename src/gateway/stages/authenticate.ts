import { AmbitError, isAmbitError } from '../../errors.ts';
import type { ExternalKeys } from '../../identity/external-keys.ts';
import { looksLikeJwt } from '../../identity/jwt/verify-jwt.ts';
import type { Keys } from '../../identity/keys.ts';
import {
  anonymousUser,
  localUser,
  type PresentedCredential,
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
  /** Verifies a JWT and returns its user. Absent if no issuer is configured. */
  readonly verifyJwt?: ((presented: PresentedToken) => UserPrincipal | Promise<UserPrincipal>) | undefined;
  /** Verifies keys of another system, if a callback is configured. */
  readonly externalKeys?: Pick<ExternalKeys, 'mayBeKey' | 'verify'> | undefined;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
  readonly log: Log;
}

/** Finds the principal of a credential or throws UNAUTHENTICATED. Returns a promise only if it must ask. */
export type Identify = (credential: PresentedCredential) => Principal | Promise<Principal>;

const warnEveryMs = 60_000;
const anonymous = { kind: 'anonymous', userId: anonymousUser } as const;

/** Finds the principal. The credential may have been revoked since the entrance checked it. */
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

/** Creates the function that turns credentials into principals, for entrances and for the pipeline. */
export function createIdentify(options: IdentifyOptions): Identify {
  const { sessions, keys, verifyJwt, externalKeys, log } = options;
  let warnedAt = -Infinity;

  /** Returns the anonymous principal if the configuration lets invalid tokens count as none. */
  function allowAnonymous(error: unknown, loopback: boolean): Principal {
    const passes = options.onInvalidKey === 'anonymous' && options.anonymous === 'loopback' && loopback;
    if (!passes || !isAmbitError(error) || error.code !== 'UNAUTHENTICATED') throw error;
    // A client repeats its credential with each request, so the warning is limited.
    if (performance.now() - warnedAt >= warnEveryMs) {
      warnedAt = performance.now();
      log.warn('invalid credential treated as anonymous', { reason: error.message });
    }
    return anonymous;
  }

  function verifyCredential(presented: PresentedToken, address: string | undefined): Principal | Promise<Principal> {
    if (presented.kind === 'ambk') return keys.verify(presented);
    if (externalKeys?.mayBeKey(presented)) return externalKeys.verify(presented, address);
    if (verifyJwt !== undefined && looksLikeJwt(presented)) return verifyJwt(presented);
    const session = sessions.verifyToken(presented);
    return session instanceof Promise ? session.then(createSessionPrincipal) : createSessionPrincipal(session);
  }

  return function identify(credential) {
    switch (credential.kind) {
      case 'pipe':
        return { kind: 'local', userId: sessions.get(credential.sessionId)?.userId ?? localUser };
      case 'bearer': {
        const principal = verifyCredential(credential.presented, credential.address);
        if (!(principal instanceof Promise)) return principal;
        return principal.catch((error) => allowAnonymous(error, credential.loopback));
      }
      case 'none':
        if (options.anonymous === 'loopback' && credential.loopback) return anonymous;
        throw new AmbitError('UNAUTHENTICATED', { what: 'The request has no credential.' });
    }
  };
}

function createSessionPrincipal({ id, userId }: Session): Principal {
  return { kind: 'session', sessionId: id, userId };
}
