import type { Keys } from '../../directory/keys.ts';
import { isAmbitError } from '../../errors.ts';
import type { PresentedToken } from '../../identity/token.ts';
import type { Stage } from '../chain.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { Visit } from '../visit.ts';
import { standsOpen } from './heed-token.ts';

export interface HeedKeyOptions {
  readonly keys: Pick<Keys, 'verify'>;
  onRevoked(listener: (userId: string, keyId: string) => void): void;
}

/** Of a key that was revoked we hear at once; that it expired or was rotated, or its user removed, is looked up. */
const lookEveryMs = 2000;

/**
 * After `resolve-session`, for users with a key: no stream stands open for one that is no longer taken. The session it
 * belongs to may go on, when another key of the same user has opened it.
 */
export function heedKey<E extends InSession<Arrived> | InSession<Visit>, Out>(
  options: HeedKeyOptions,
): Stage<E, E, Out> {
  const looks = new Map<() => void, string>();
  options.onRevoked((_, revoked) => {
    for (const [look, keyId] of looks) if (keyId === revoked) look();
  });

  function endWith(presented: PresentedToken, keyId: string, { channel }: E): void {
    const over = () => {
      clearInterval(timer);
      looks.delete(look);
    };
    const look = () => {
      if (channel.isGone()) return over();
      // A store that is away says nothing about the key.
      Promise.resolve(options.keys.verify(presented)).catch((error: unknown) => {
        if (isAmbitError(error) && error.code === 'UNAUTHENTICATED') channel.close();
      });
    };
    const timer = setInterval(look, lookEveryMs).unref();
    looks.set(look, keyId);
    channel.onGone(over);
  }

  return function heedKey(exchange, next) {
    const { principal, credential } = exchange;
    const keyId = principal.kind === 'user' ? principal.keyId : undefined;
    if (keyId !== undefined && credential.kind === 'bearer' && standsOpen(exchange)) {
      endWith(credential.presented, keyId, exchange);
    }
    return next(exchange);
  };
}
