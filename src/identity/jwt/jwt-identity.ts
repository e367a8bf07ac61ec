import { AmbitError } from '../../errors.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ControlRole } from '../consoles.ts';
import type { UserPrincipal } from '../principal.ts';
import type { PresentedToken } from '../token.ts';
import type { JwtIssuer } from './verify-jwt.ts';
import { createJwtVerifier, type VerifiedJwt } from './verify-jwt.ts';

/** A user of the control API, with the role and the expiry of the access token. */
interface ControlAccess {
  readonly userId: string;
  readonly role: ControlRole;
  readonly until: number;
}

/** Users and administrators that prove themselves with access tokens of identity providers. */
export interface JwtIdentity {
  /** Verifies a token; a promise only when it is not cached. */
  verify(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  /** Returns what a token may do in the control API; undefined for a token that may not use it. */
  findControlAccess(presented: PresentedToken): Promise<ControlAccess | undefined>;
  readonly issuers: readonly string[];
  /** The scopes that are useful here with every issuer. */
  readonly scopes: readonly string[];
  /** The scopes that a first token should have. */
  readonly required: readonly string[];
}

const warnEveryMs = 60_000;

/** Creates the identity by tokens; undefined when no identity provider is configured. */
export function createJwtIdentity(issuers: readonly JwtIssuer[], log: Log): JwtIdentity | undefined {
  if (issuers.length === 0) return undefined;
  const warnedAt = new Map<string, number>();

  /** Logs each reason at most once a minute, because strangers decide how often it occurs. There are few reasons. */
  function logRefusal(reason: string, issuer = ''): void {
    const key = `${issuer} ${reason}`;
    const now = performance.now();
    if (now - (warnedAt.get(key) ?? -Infinity) < warnEveryMs) return;
    warnedAt.set(key, now);
    log.warn('access token refused', { reason, ...(issuer === '' ? {} : { issuer }) });
  }

  const verifier = createJwtVerifier({ issuers, onRefused: logRefusal });

  function requirePrincipal(verified: VerifiedJwt): UserPrincipal {
    const { principal, issuer } = verified;
    if (!hasRequiredScopes(verified)) {
      throw new AmbitError('INSUFFICIENT_SCOPE', { scopes: issuer.scopes, rule: 'auth.jwt.scopes' });
    }
    if (principal !== undefined) return principal;
    throw new AmbitError('PERMISSION_DENIED', {
      what: 'No role of this user gives access.',
      hint: 'Ask the operator for one of the roles in the configuration.',
      rule: 'auth.jwt.roles',
    });
  }

  return {
    verify(presented) {
      const verified = verifier.verify(presented);
      return verified instanceof Promise ? verified.then(requirePrincipal) : requirePrincipal(verified);
    },
    async findControlAccess(presented) {
      try {
        const verified = await verifier.verify(presented);
        const { controlRole: role, userId, until } = verified;
        return role !== undefined && hasRequiredScopes(verified) ? { userId, role, until } : undefined;
      } catch {
        return undefined;
      }
    },
    issuers: issuers.map(({ issuer }) => issuer),
    scopes: intersectLists(issuers.map(({ scopes, permissions }) => [...scopes, ...Object.values(permissions)])),
    required: intersectLists(issuers.map(({ scopes }) => scopes)),
  };
}

function hasRequiredScopes({ scopes, issuer }: VerifiedJwt): boolean {
  return issuer.scopes.every((scope) => scopes.includes(scope));
}

/** Returns the names that all lists share. An identity provider would refuse scopes of another. */
function intersectLists([first = [], ...others]: readonly (readonly string[])[]): readonly string[] {
  return [...new Set(first)].filter((name) => others.every((each) => each.includes(name)));
}
