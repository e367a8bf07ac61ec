import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { AmbitError } from '../../errors.ts';
import type { UserPrincipal } from '../principal.ts';
import type { PresentedToken } from '../token.ts';
import { createUserName, findCeiling, findPermissions, type JwtIssuer, readRoles, readScopes } from './claims.ts';
import { createIssuerKeys, IssuerUnreachableError } from './issuer-keys.ts';

/** What a token that verifies says. */
export interface VerifiedJwt {
  /** Undefined when its roles give it no place here; as an administrator it may still count. */
  readonly principal: UserPrincipal | undefined;
  readonly userId: string;
  readonly isAdmin: boolean;
  readonly scopes: readonly string[];
  readonly issuer: JwtIssuer;
  /** The instant it expires, with the tolerance for clocks. */
  readonly until: number;
}

export interface JwtVerifier {
  /** UNAUTHENTICATED unless it verifies; a promise only when it is not remembered. */
  verify(presented: PresentedToken): VerifiedJwt | Promise<VerifiedJwt>;
}

export interface JwtVerifierOptions {
  readonly issuers: readonly JwtIssuer[];
  /** Hears why a token was not taken; never of the token itself. */
  readonly onRefused?: (why: string, issuer: string | undefined) => void;
  /** For tests that move time by hand. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
}

/** A verified token is taken without another look for this long. */
const cacheMs = 60_000;
const maxCachedTokens = 10_000;
/** Signatures are checked on the threads that also read and write files: forged tokens must leave some of them free. */
const maxConcurrentVerifications = 2;
const jwtPattern = /^[\w-]{1,8192}\.[\w-]{1,12288}\.[\w-]{1,2048}$/;

/** Whether it could be one at all; whatever is no JWT costs no further look. */
export function looksLikeJwt({ token, kind }: PresentedToken): boolean {
  return kind === undefined && jwtPattern.test(token);
}

export function createJwtVerifier(options: JwtVerifierOptions): JwtVerifier {
  const { issuers, onRefused: refused, now = Date.now, elapsed = () => performance.now() } = options;
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  const keys = new Map<string, Promise<JWTVerifyGetKey>>();
  const acquireVerification = createConcurrencyLimit(maxConcurrentVerifications);
  const cachedTokens = new Map<string, { readonly verified: VerifiedJwt; readonly at: number }>();

  function findIssuerKeys({ jwksUri, issuer }: JwtIssuer): Promise<JWTVerifyGetKey> {
    const known = keys.get(issuer);
    if (known !== undefined) return known;
    const made = createIssuerKeys({ jwksUri, elapsed });
    keys.set(issuer, made);
    return made;
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
      if (!looksLikeJwt(presented)) throw new TokenRejectedError('it is no JWT');
      issuer = byName.get(decodeJwt(presented.token).iss ?? '');
      if (issuer === undefined) throw new TokenRejectedError('its issuer is not configured');
      const keyOf = await findIssuerKeys(issuer);
      const { payload, protectedHeader } = await jwtVerify(
        presented.token,
        async (header, token) => {
          const key = await keyOf(header, token);
          // Once the key is there: nobody waits for the keys of another issuer.
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
      const why = unreachable ? `the keys of its issuer cannot be had: ${error.message}` : describeRejection(error);
      refused?.(why, issuer?.issuer);
      if (unreachable) throw new AmbitError('IDENTITY_UNAVAILABLE');
      throw new AmbitError('UNAUTHENTICATED', { hint: newTokenHint });
    } finally {
      releaseVerification?.();
    }
  }

  return { verify: (presented) => findCached(presented.digest) ?? verifyByKeys(presented) };
}

const newTokenHint = 'Get a new access token for this resource from the authorization server, and send that.';

/** An ID token or a logout token is signed by the same keys, and is no leave to call anything. */
function assertTokenType({ tokenType }: JwtIssuer, typ: string | undefined): void {
  const said = typ?.toLowerCase().replace(/^application\//, '');
  if (said === 'at+jwt' || (tokenType === 'jwt' && (said === undefined || said === 'jwt'))) return;
  throw new TokenRejectedError('it is not of the type that is taken');
}

function readVerifiedJwt(issuer: JwtIssuer, payload: JWTPayload): VerifiedJwt {
  const { sub, exp } = payload;
  if (typeof sub !== 'string' || sub === '' || exp === undefined) throw new TokenRejectedError('it names nobody');
  // Bound to a key that its holder would have to prove: as a mere bearer token it may be a stolen one.
  if (payload['cnf'] !== undefined)
    throw new TokenRejectedError('it is bound to a key, and proofs of one are not taken');
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

/** Why a token is not taken, for whoever runs Ambit: to a stranger all of them look alike. */
class TokenRejectedError extends Error {}

/** Of the library's errors only the code and the name of a claim: their words may repeat what was sent. */
function describeRejection(error: unknown): string {
  if (error instanceof TokenRejectedError) return error.message;
  const { code, claim } = error as { readonly code?: unknown; readonly claim?: unknown };
  if (typeof code !== 'string') return 'it does not verify';
  return typeof claim === 'string' ? `${code} (${claim})` : code;
}

/** Lets so many have a turn at a time; the others wait in the order they came. What is returned ends the turn. */
function createConcurrencyLimit(maxConcurrent: number): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let running = 0;

  function release(): void {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }

  return async function acquire() {
    if (running >= maxConcurrent) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    return release;
  };
}
