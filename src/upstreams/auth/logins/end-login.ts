import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../../errors.ts';
import type { Attempt } from './attempts.ts';
import type { GuardedFetch } from './guarded-fetch.ts';
import type { LoginFacts, LoginSecrets } from './login.ts';
import { redeem } from './token-calls.ts';

/** Undefined where there is none, or more than one. */
export function stateIn(callback: string): string | undefined {
  const found = URL.canParse(callback) ? new URL(callback).searchParams.getAll('state') : [];
  return found.length === 1 ? found[0] : undefined;
}

/** Each authorization server sends users back to an address of its own: another may not end what this one began. */
export function assertWayBack({ redirectUri }: Attempt, callback: string): void {
  const { origin, pathname } = new URL(callback);
  if (`${origin}${pathname}` !== redirectUri) {
    throw new AmbitError('LOGIN_FAILED', { what: 'The answer came from another authorization server than was asked.' });
  }
}

/** Redeems what the user came back with. `callback` is the address they came back to, whole. */
export async function endLogin(
  attempt: Attempt,
  { callback, state }: { readonly callback: string; readonly state: string },
  fetch: GuardedFetch,
  at: number,
): Promise<{ readonly facts: LoginFacts; readonly secrets: LoginSecrets }> {
  const { userId, server, url, resource, client, as, verifier, redirectUri } = attempt;
  assertWayBack(attempt, callback);
  const given = { callback: new URL(callback).searchParams, state, verifier, redirectUri };
  const { accessToken, refreshToken, expiresAt, scopes = attempt.scopes } = await redeem(attempt, given, fetch);
  const facts: LoginFacts = {
    id: randomUUID(),
    userId,
    server,
    issuer: as.issuer,
    scopes,
    wanted: [],
    state: 'active',
    madeAt: at,
    renewedAt: at,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
  const kept = refreshToken === undefined ? {} : { refreshToken };
  return { facts, secrets: { url, resource, client, as, accessToken, ...kept } };
}
