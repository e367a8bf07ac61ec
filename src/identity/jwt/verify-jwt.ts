import { createHash } from 'node:crypto';
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey } from 'jose';
import { AmbitError } from '../../errors.ts';
import { createConcurrencyLimit } from '../../lib/async/mutex.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { ControlRole } from '../consoles.ts';
import type { AccessCeiling, TokenPermissions, UserPrincipal } from '../principal.ts';
import type { PresentedToken } from '../token.ts';

export interface VerifiedJwt {
  /** Undefined when its roles give no access; it may still be an administrator. */
  readonly principal: UserPrincipal | undefined;
  readonly userId: string;
  /** The role that the token gives in the control API, if any. */
  readonly controlRole: ControlRole | undefined;
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
    controlRole: findControlRole(issuer, roles),
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

interface IssuerKeysOptions {
  readonly jwksUri: string;
  /** A monotonic clock in milliseconds: setting the system clock back must not keep old keys in use. */
  readonly elapsed: () => number;
}

const freshMs = 600_000;
/** The time for which known keys are used while the issuer is unreachable. */
const staleMs = 3_600_000;
/** The shortest time between two requests to the issuer, whatever tokens arrive. */
const cooldownMs = 10_000;
const timeoutMs = 5000;
const maxBytes = 1024 * 1024;

/**
 * Creates the key source of an issuer, which fetches keys when a token needs them. A token with an unknown key leads to
 * another fetch, since keys are rotated; but not every such token, or strangers could make us flood the issuer.
 */
async function createIssuerKeys({ jwksUri, elapsed }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, errors } = await import('jose');
  let known: { readonly keys: ReturnType<typeof createLocalJWKSet>; readonly at: number } | undefined;
  let askedAt = -Infinity;
  let refreshing: Promise<void> | undefined;
  let failure = '';

  /** Fetches the keys unless it was tried a moment ago. `known` tells whether it succeeded. */
  function refreshKeys(): Promise<void> {
    if (refreshing !== undefined) return refreshing;
    if (elapsed() - askedAt < cooldownMs) return Promise.resolve();
    askedAt = elapsed();
    const at = askedAt;
    refreshing = fetchKeys(jwksUri)
      .then((set) => {
        known = { keys: createLocalJWKSet(set), at };
      })
      .catch((error: unknown) => {
        failure = describeFailure(error);
      })
      .finally(() => {
        refreshing = undefined;
      });
    return refreshing;
  }

  return async function issuerKeys(header, token) {
    if (known === undefined || elapsed() - known.at >= freshMs) await refreshKeys();
    const current = known;
    if (current === undefined || elapsed() - current.at >= staleMs) throw new IssuerUnreachableError(failure);
    try {
      return await current.keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refreshKeys();
      if (known === current || known === undefined) throw error;
      return known.keys(header, token);
    }
  };
}

/** The keys of the issuer are unknown, so no token can be verified. */
class IssuerUnreachableError extends Error {
  override readonly name = 'IssuerUnreachable';
}

/** Describes a failure without repeating text of the issuer. */
function describeFailure(error: unknown): string {
  const { name, message, cause } = error as Error & { readonly cause?: { readonly code?: string } };
  if (name === 'TimeoutError') return 'no answer in time';
  return cause?.code ?? (error instanceof SyntaxError ? 'no JSON' : message);
}

/** Fetches the keys without following redirects, because the operator named this one address. */
async function fetchKeys(jwksUri: string): Promise<JSONWebKeySet> {
  const response = await fetch(jwksUri, {
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
    headers: { accept: 'application/jwk-set+json, application/json' },
  });
  if (response.status !== 200 || response.body === null) {
    await response.body?.cancel();
    throw new Error(`status ${response.status}`);
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body) {
    length += part.length;
    if (length > maxBytes) throw new Error('too long');
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString('utf8')) as JSONWebKeySet;
}

/** An identity provider whose tokens are accepted, as configured. */
export interface JwtIssuer {
  readonly issuer: string;
  readonly audience: readonly string[];
  readonly jwksUri: string;
  readonly userPrefix?: string | undefined;
  /** `jwt` also accepts tokens that are not marked as access tokens. */
  readonly tokenType: 'at+jwt' | 'jwt';
  readonly algorithms: readonly string[];
  readonly clockToleranceSeconds: number;
  /** Scopes that every token needs. */
  readonly scopes: readonly string[];
  /** The scope that grants each permission. */
  readonly permissions: Readonly<Record<string, string>>;
  readonly roles?:
    | {
        readonly claim: string;
        readonly map: Readonly<Record<string, RoleBounds>>;
        readonly admin: readonly string[];
        readonly viewer: readonly string[];
      }
    | undefined;
}

interface RoleBounds {
  readonly trust: TrustLevel;
  readonly workspaces?: readonly string[] | undefined;
}

const plainSubject = /^[A-Za-z0-9._@|:-]+$/;
const maxUserLength = 128;
const hashPrefix = 'sha256:';

/** Creates the name of a user. Unusual subjects become hashes, and so do those that look like one. */
function createUserName({ issuer, userPrefix }: JwtIssuer, subject: string): string {
  // It must be unique among issuers, or their users would be mixed up.
  const prefix = userPrefix ?? new URL(issuer).host;
  const name = `${prefix}|${subject}`;
  if (plainSubject.test(subject) && name.length <= maxUserLength && !subject.startsWith(hashPrefix)) return name;
  return `${prefix}|${hashPrefix}${createHash('sha256').update(subject).digest('hex')}`;
}

/** Reads `scope` of RFC 9068, words in one text, and `scp` of some providers, a list or such a text. */
function readScopes(payload: JWTPayload): string[] {
  return [payload['scope'], payload['scp']].flatMap((claim) =>
    typeof claim === 'string' ? claim.split(' ').filter((word) => word !== '') : listStrings(claim),
  );
}

/** Reads the claim of that name, else the nested claim that its dotted parts name. */
function readRoles(payload: JWTPayload, claim: string): string[] {
  const found = readMember(payload, claim) ?? claim.split('.').reduce<unknown>(readMember, payload);
  return typeof found === 'string' ? [found] : listStrings(found);
}

/** Finds what the roles of a token allow; undefined when roles are required and the token has none of them. */
function findCeiling(issuer: JwtIssuer, roles: readonly string[]): AccessCeiling | undefined {
  if (issuer.roles === undefined) return { trustLevel: 'sandboxed', workspaces: null, scopes: null };
  const { map } = issuer.roles;
  const granted = roles.flatMap((role) => (Object.hasOwn(map, role) ? [map[role] as RoleBounds] : []));
  if (granted.length === 0) return undefined;
  const workspaces = mergeWorkspaces(granted);
  const direct = granted.filter(({ trust }) => trust === 'direct');
  const trustLevel = direct.length > 0 ? 'direct' : 'sandboxed';
  // Roles add up, but the trust of one does not apply to the workspaces of another.
  const directWorkspaces = direct.length > 0 ? mergeWorkspaces(direct) : null;
  const directIn =
    directWorkspaces === null || directWorkspaces.length === workspaces?.length ? {} : { directIn: directWorkspaces };
  // Permissions are not limited here, because each request brings those that scopes decide about.
  return { trustLevel, ...directIn, workspaces, scopes: null };
}

/** Merges the workspaces of roles; null when one of them is not limited. */
function mergeWorkspaces(roles: readonly RoleBounds[]): string[] | null {
  if (roles.some((role) => role.workspaces === undefined)) return null;
  return [...new Set(roles.flatMap((role) => role.workspaces ?? []))];
}

/** Finds what the roles of a token allow in the control API. An administrator needs no role of a viewer. */
function findControlRole(issuer: JwtIssuer, roles: readonly string[]): ControlRole | undefined {
  const isOneOf = (names: readonly string[] = []) => names.some((name) => roles.includes(name));
  if (isOneOf(issuer.roles?.admin)) return 'admin';
  return isOneOf(issuer.roles?.viewer) ? 'viewer' : undefined;
}

function findPermissions({ permissions }: JwtIssuer, scopes: readonly string[]): TokenPermissions {
  const brought = Object.keys(permissions).filter((name) => scopes.includes(permissions[name] as string));
  return { brought, governed: permissions };
}

function readMember(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}

function listStrings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
