import { AmbitError, isAmbitError } from '../../errors.ts';
import { anonymousUser, localUser } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Identified } from '../exchange.ts';

export interface AuthenticateOptions {
  readonly sessions: Sessions;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
}

/** Second on the inward corridor: from a credential to a principal that is proven. */
export function authenticate<E extends Approach, Out>(options: AuthenticateOptions): Stage<E, Identified<E>, Out> {
  const { sessions } = options;
  const anonymous = { kind: 'anonymous', userId: anonymousUser } as const;

  /** Undefined where a token that does not verify counts as none. */
  function lenient(error: unknown, loopback: boolean): undefined {
    const passes = options.onInvalidKey === 'anonymous' && options.anonymous === 'loopback' && loopback;
    if (passes && isAmbitError(error) && error.code === 'UNAUTHENTICATED') return undefined;
    throw error;
  }

  return function authenticate(exchange, next) {
    const { credential, entry } = exchange;
    switch (credential.kind) {
      case 'pipe': {
        entry.userId = sessions.get(credential.sessionId)?.userId ?? localUser;
        return next(widen(exchange, { principal: { kind: 'local', userId: entry.userId } }));
      }
      case 'bearer': {
        const session = sessions.prove(credential.presented);
        if (!(session instanceof Promise)) return proven(session);
        return session.catch((error) => lenient(error, credential.loopback)).then(proven);
      }
      case 'none': {
        if (options.anonymous === 'loopback' && credential.loopback) {
          return next(widen(exchange, { principal: anonymous }));
        }
        throw new AmbitError('UNAUTHENTICATED', { what: 'The request carries no credential.' });
      }
    }

    function proven(session: Session | undefined): Promise<Out> {
      if (session === undefined) return next(widen(exchange, { principal: anonymous }));
      entry.sessionId = session.id;
      entry.userId = session.userId;
      return next(widen(exchange, { principal: { kind: 'session', sessionId: session.id, userId: session.userId } }));
    }
  };
}
