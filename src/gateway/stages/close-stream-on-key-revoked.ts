import { isAmbitError } from '../../errors.ts';
import type { UserPrincipal } from '../../identity/principal.ts';
import type { PresentedToken } from '../../identity/token.ts';
import { mayUseSession } from '../../sessions/user-sessions.ts';
import type { BeforeStage } from '../stage.ts';
import { isListenStream } from './apply-token-scopes.ts';
import type { SessionRequest } from './handle-transport.ts';

export interface KeyRevocation {
  verifyKey(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  onRevoked(listener: (userId: string, keyId: string) => void): void;
}

/** A revoked key is reported at once. Expiry, rotation, removed users and keys of another system are polled. */
const checkEveryMs = 2000;
/** The errors that close a stream. An unavailable store says nothing about the key. */
const closingCodes = new Set(['UNAUTHENTICATED', 'IDENTITY_UNAVAILABLE']);

/** Closes the streams of a key that is no longer accepted. The session may go on with another key. */
export function closeStreamOnKeyRevoked(options: KeyRevocation): BeforeStage<SessionRequest, void> {
  const checks = new Map<() => void, string>();
  options.onRevoked((_, revoked) => {
    for (const [look, keyId] of checks) if (keyId === revoked) look();
  });

  function watchKey(presented: PresentedToken, keyId: string, { channel, session }: SessionRequest): void {
    const stopWatching = () => {
      clearInterval(timer);
      checks.delete(checkKey);
    };
    const checkKey = () => {
      if (channel.isGone()) return stopWatching();
      Promise.resolve(options.verifyKey(presented)).then(
        (principal) => {
          if (!mayUseSession(session, principal)) channel.close();
        },
        (error: unknown) => {
          if (isAmbitError(error) && closingCodes.has(error.code)) channel.close();
        },
      );
    };
    const timer = setInterval(checkKey, checkEveryMs).unref();
    checks.set(checkKey, keyId);
    channel.onGone(stopWatching);
  }

  return {
    name: 'closeStreamOnKeyRevoked',
    refuses: [],
    isNeeded: ({ principal, isToolCall }) => principal === 'user' && !isToolCall,
    before(exchange) {
      const { principal, credential } = exchange;
      const keyId = principal.kind === 'user' ? principal.keyId : undefined;
      if (keyId !== undefined && credential.kind === 'bearer' && isListenStream(exchange)) {
        watchKey(credential.presented, keyId, exchange);
      }
    },
  };
}
