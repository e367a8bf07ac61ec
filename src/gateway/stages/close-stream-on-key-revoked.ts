import { isAmbitError } from '../../errors.ts';
import type { Keys } from '../../identity/keys.ts';
import type { PresentedToken } from '../../identity/token.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';
import { isListenStream } from './apply-token-scopes.ts';
import type { Visit } from './handle-transport.ts';

export interface KeyRevocation {
  readonly keys: Pick<Keys, 'verify'>;
  onRevoked(listener: (userId: string, keyId: string) => void): void;
}

/** A revoked key is reported at once. Expiry, rotation and removed users are polled. */
const lookEveryMs = 2000;

type Streaming = InSession<Arrived> | InSession<Visit>;

/**
 * Closes the open streams of a key that is no longer accepted. The session may go on, when another key of the same user
 * has opened it.
 */
export function closeStreamOnKeyRevoked(options: KeyRevocation): BeforeStage<Streaming, void> {
  const looks = new Map<() => void, string>();
  options.onRevoked((_, revoked) => {
    for (const [look, keyId] of looks) if (keyId === revoked) look();
  });

  function endWith(presented: PresentedToken, keyId: string, { channel }: Streaming): void {
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

  return {
    name: 'closeStreamOnKeyRevoked',
    refuses: [],
    isNeeded: ({ principal, isToolCall }) => principal === 'user' && !isToolCall,
    before(exchange) {
      const { principal, credential } = exchange;
      const keyId = principal.kind === 'user' ? principal.keyId : undefined;
      if (keyId !== undefined && credential.kind === 'bearer' && isListenStream(exchange)) {
        endWith(credential.presented, keyId, exchange);
      }
    },
  };
}
