import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { AmbitError } from '../../errors.ts';
import { createConcurrencyLimit } from '../../lib/async/mutex.ts';
import type { UserPrincipal } from '../principal.ts';
import type { PresentedToken } from '../token.ts';
import { createUserName, findCeiling, findPermissions, type JwtIssuer, readRoles, readScopes } from './claims.ts';
import { createIssuerKeys, IssuerUnreachableError } from './issuer-keys.ts';

export interface VerifiedJwt {
  /** Undefined when its roles give no access; it may still be an administrator. */
  readonly principal: UserPrincipal | undefined;
  readonly userId: string;
  readonly isAdmin: boolean;
  readonly scopes: readonly string[];
  readonly issuer: JwtIssuer;
  /** The time at which it expires, with the tolerance for clocks. */
  readonly until: number;
}

interface JwtVerifier {
  /** Throws UNAUTHENTICATED unless the token verifies; a promise only when it is not cached. */
  verify(presented: PresentedToken): VerifiedJwt | Promise<VerifiedJwt>;
}

interface JwtVerifierOptions {
  readonly issuers: readonly JwtIssuer[];
  /** Gets the reason why a token was refused, never the token. */
  readonly onRefused?: (why: string, issuer: string | undefined) => void;
  /** A clock for tests. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
}

const cacheMs = 60_000;
const maxCachedTokens = 10_000;
/** Signatures are verified on the threads that also read and write files; forged tokens must not occupy all of them. */
const maxConcurrentVerifications = 2;
const jwtPattern = /^[\w-]{1,8192}\.[\w-]{1,12288}\.[\w-]{1,2048}$/;

/** Tells whether a token has the form of a JWT, before any work is spent on it. */
export function looksLikeJwt({ token, kind }: PresentedToken): boolean {
  return kind === undefined && jwtPattern.test(token);
}

export function createJwtVerifier(options: JwtVerifierOptions): JwtVerifier {
  const { issuers, onRefused, now = Date.now, elapsed = () => performance.now() } = options;
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  const keys = new Map<string, Promise<JWTVerifyGetKey>>();
  const acquireVerification = createConcurrencyLimit(maxConcurrentVerifications);
  const cachedTokens = new Map<string, { readonly verified: VerifiedJwt; readonly at: number }>();

  function findIssuerKeys({ jwksUri, issuer }: JwtIssuer): Promise<JWTVerifyGetKey> {
    const known = keys.get(issuer);
    if (known !== undefined) return known;
    const created = createIssuerKeys({ jwksUri, elapsed });
    keys.set(issuer, created);
    return created;
  }

  function findCached(digest: string): VerifiedJwt | undefined {
    const found = cachedTokens.get(digest);
    if (found === undefined) return undefined;
    if (elapsed() - found.at < cacheMs && now() < found.verified.until) return found.verified;
    cachedTokens.delete(digest);
    return undefined;
  }

  function cacheToken(digest: string, verified: VerifiedJwt): void {
    if (cachedTokens.size >= maxCachedTokens) cachedTokens.delete(cachedTokens.keys().next().value as string);
    cachedTokens.set(digest, { verified, at: elapsed() });
  }

  async function verifyByKeys(presented: PresentedToken): Promise<VerifiedJwt> {
    const { decodeJwt, jwtVerify } = await import('jose');
    let issuer: JwtIssuer | undefined;
    let releaseVerification: (() => void) | undefined;
    try {
      if (!looksLikeJwt(presented)) throw new TokenRejectedError('it is not a JWT');
      issuer = byName.get(decodeJwt(presented.token).iss ?? '');
      if (issuer === undefined) throw new TokenRejectedError('its issuer is not configured');
      const keyOf = await findIssuerKeys(issuer);
      const { payload, protectedHeader } = await jwtVerify(
        presented.token,
        async (header, token) => {
          const key = await keyOf(header, token);
          // The key is fetched first, so that no token waits for the keys of another issuer.
          releaseVerification = await acquireVerification();
          return key;
        },
        {
          issuer: issuer.issuer,
          audience: [...issuer.audience],
          algorithms: [...issuer.algorithms],
          requiredClaims: ['exp', 'sub', 'iss', 'aud'],
          clockTolerance: issuer.clockToleranceSeconds,
          currentDate: new Date(now()),
        },
      );
      assertTokenType(issuer, protectedHeader.typ);
      const verified = readVerifiedJwt(issuer, payload);
      cacheToken(presented.digest, verified);
      return verified;
    } catch (error) {
      const unreachable = error instanceof IssuerUnreachableError;
      const why = unreachable ? `the keys of its issuer are not available: ${error.message}` : describeRejection(error);
      onRefused?.(why, issuer?.issuer);
      if (unreachable) throw new AmbitError('IDENTITY_UNAVAILABLE');
      throw new AmbitError('UNAUTHENTICATED', { hint: newTokenHint });
    } finally {
      releaseVerification?.();
    }
  }

  return { verify: (presented) => findCached(presented.digest) ?? verifyByKeys(presented) };
}

const newTokenHint = 'Get a new access token for this resource from the authorization server, and send it.';

/** Refuses ID tokens and logout tokens, which the same keys sign and which grant no access. */
function assertTokenType({ tokenType }: JwtIssuer, typ: string | undefined): void {
  const type = typ?.toLowerCase().replace(/^application\//, '');
  if (type === 'at+jwt' || (tokenType === 'jwt' && (type === undefined || type === 'jwt'))) return;
  throw new TokenRejectedError('its type is not accepted');
}

function readVerifiedJwt(issuer: JwtIssuer, payload: JWTPayload): VerifiedJwt {
  const { sub, exp } = payload;
  if (typeof sub !== 'string' || sub === '' || exp === undefined) throw new TokenRejectedError('it has no subject');
  // The token is bound to a key that its holder would have to prove; as a plain bearer token it may be stolen.
  if (payload['cnf'] !== undefined)
    throw new TokenRejectedError('it is bound to a key, and Ambit does not support proofs of possession');
  const scopes = readScopes(payload);
  const roles = issuer.roles === undefined ? [] : readRoles(payload, issuer.roles.claim);
  const ceiling = findCeiling(issuer, roles);
  const userId = createUserName(issuer, sub);
  const until = (exp + issuer.clockToleranceSeconds) * 1000;
  const token = { until, scopes: issuer.scopes, permissions: findPermissions(issuer, scopes) };
  return {
    principal: ceiling && { kind: 'user', userId, via: 'jwt', ceiling, token },
    userId,
    isAdmin: issuer.roles?.admin.some((role) => roles.includes(role)) ?? false,
    scopes,
    issuer,
    until,
  };
}

/** The reason why a token is refused, for the operator's log. Callers get the same answer for all. */
class TokenRejectedError extends Error {}

/** Repeats only the code and the claim of a library error, because its text may contain the token's data. */
function describeRejection(error: unknown): string {
  if (error instanceof TokenRejectedError) return error.message;
  const { code, claim } = error as { readonly code?: unknown; readonly claim?: unknown };
  if (typeof code !== 'string') return 'its signature or claims are not valid';
  return typeof claim === 'string' ? `${code} (${claim})` : code;
}
