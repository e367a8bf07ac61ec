import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { AmbitError } from '../../errors.ts';
import type { UserPrincipal } from '../principal.ts';
import type { PresentedToken } from '../token.ts';
import { ceilingOf, type JwtIssuer, permissionsOf, rolesOf, scopesOf, userNameOf } from './claims.ts';
import { createIssuerKeys, IssuerUnreachable } from './issuer-keys.ts';

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

export interface JwtOptions {
  readonly issuers: readonly JwtIssuer[];
  /** Hears why a token was not taken; never of the token itself. */
  readonly refused?: (why: string, issuer: string | undefined) => void;
  /** For tests that move time by hand. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
}

/** A verified token is taken without another look for this long. */
const rememberedMs = 60_000;
const mostRemembered = 10_000;
/** Signatures are checked on the threads that also read and write files: forged tokens must leave some of them free. */
const verifiedAtOnce = 2;
const shape = /^[\w-]{1,8192}\.[\w-]{1,12288}\.[\w-]{1,2048}$/;

/** Whether it could be one at all; whatever is no JWT costs no further look. */
export function looksLikeJwt({ token, kind }: PresentedToken): boolean {
  return kind === undefined && shape.test(token);
}

export function createJwtVerifier(options: JwtOptions): JwtVerifier {
  const { issuers, refused, now = Date.now, elapsed = () => performance.now() } = options;
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  const keys = new Map<string, Promise<JWTVerifyGetKey>>();
  const takeTurn = createVerifyTurns(verifiedAtOnce);
  const remembered = new Map<string, { readonly verified: VerifiedJwt; readonly at: number }>();

  function keysOf({ jwksUri, issuer }: JwtIssuer): Promise<JWTVerifyGetKey> {
    const known = keys.get(issuer);
    if (known !== undefined) return known;
    const made = createIssuerKeys({ jwksUri, elapsed });
    keys.set(issuer, made);
    return made;
  }

  function recalled(digest: string): VerifiedJwt | undefined {
    const found = remembered.get(digest);
    if (found === undefined) return undefined;
    if (elapsed() - found.at < rememberedMs && now() < found.verified.until) return found.verified;
    remembered.delete(digest);
    return undefined;
  }

  function remember(digest: string, verified: VerifiedJwt): void {
    if (remembered.size >= mostRemembered) remembered.delete(remembered.keys().next().value as string);
    remembered.set(digest, { verified, at: elapsed() });
  }

  async function byKeys(presented: PresentedToken): Promise<VerifiedJwt> {
    const { decodeJwt, jwtVerify } = await import('jose');
    let issuer: JwtIssuer | undefined;
    let endTurn: (() => void) | undefined;
    try {
      if (!looksLikeJwt(presented)) throw new NotTaken('it is no JWT');
      issuer = byName.get(decodeJwt(presented.token).iss ?? '');
      if (issuer === undefined) throw new NotTaken('its issuer is not configured');
      const keyOf = await keysOf(issuer);
      const { payload, protectedHeader } = await jwtVerify(
        presented.token,
        async (header, token) => {
          const key = await keyOf(header, token);
          // Once the key is there: nobody waits for the keys of another issuer.
          endTurn = await takeTurn();
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
      checkType(issuer, protectedHeader.typ);
      const verified = read(issuer, payload);
      remember(presented.digest, verified);
      return verified;
    } catch (error) {
      const unreachable = error instanceof IssuerUnreachable;
      const why = unreachable ? `the keys of its issuer cannot be had: ${error.message}` : reasonOf(error);
      refused?.(why, issuer?.issuer);
      if (unreachable) throw new AmbitError('IDENTITY_UNAVAILABLE');
      throw new AmbitError('UNAUTHENTICATED', { hint: newToken });
    } finally {
      endTurn?.();
    }
  }

  return { verify: (presented) => recalled(presented.digest) ?? byKeys(presented) };
}

const newToken = 'Get a new access token for this resource from the authorization server, and send that.';

/** An ID token or a logout token is signed by the same keys, and is no leave to call anything. */
function checkType({ tokenType }: JwtIssuer, typ: string | undefined): void {
  const said = typ?.toLowerCase().replace(/^application\//, '');
  if (said === 'at+jwt' || (tokenType === 'jwt' && (said === undefined || said === 'jwt'))) return;
  throw new NotTaken('it is not of the type that is taken');
}

function read(issuer: JwtIssuer, payload: JWTPayload): VerifiedJwt {
  const { sub, exp } = payload;
  if (typeof sub !== 'string' || sub === '' || exp === undefined) throw new NotTaken('it names nobody');
  // Bound to a key that its holder would have to prove: as a mere bearer token it may be a stolen one.
  if (payload['cnf'] !== undefined) throw new NotTaken('it is bound to a key, and proofs of one are not taken');
  const scopes = scopesOf(payload);
  const roles = issuer.roles === undefined ? [] : rolesOf(payload, issuer.roles.claim);
  const ceiling = ceilingOf(issuer, roles);
  const userId = userNameOf(issuer, sub);
  const until = (exp + issuer.clockToleranceSeconds) * 1000;
  const token = { until, scopes: issuer.scopes, permissions: permissionsOf(issuer, scopes) };
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
class NotTaken extends Error {}

/** Of the library's errors only the code and the name of a claim: their words may repeat what was sent. */
function reasonOf(error: unknown): string {
  if (error instanceof NotTaken) return error.message;
  const { code, claim } = error as { readonly code?: unknown; readonly claim?: unknown };
  if (typeof code !== 'string') return 'it does not verify';
  return typeof claim === 'string' ? `${code} (${claim})` : code;
}

/** Lets so many have a turn at a time; the others wait in the order they came. What is returned ends the turn. */
function createVerifyTurns(atOnce: number): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let running = 0;

  function endTurn(): void {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }

  return async function takeTurn() {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    return endTurn;
  };
}
