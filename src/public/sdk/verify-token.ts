import { compactVerify } from 'jose';
import type { ActingSession } from '../../rules/session-base.ts';
import { digestArguments, type IncomingCall, isObject } from './call.ts';
import { parseTrustLevel, quoteValue, refuseContext } from './context.ts';
import { findContextKey, getKeyFinder, hasValidHmac, isProcessKeyId, type KeySource } from './keys.ts';

/** The keys that a server verifies with. A token chooses among them by its `kid` alone. */
interface VerificationKeys {
  /** The public keys. They verify Ed25519 signatures and nothing else. */
  readonly publicKeys: KeySource | undefined;
  /** The path of the key file of this process. Its key verifies HS256 signatures and nothing else. */
  readonly keyFile: string | undefined;
}

type Claims = Readonly<Record<string, unknown>>;

interface TokenHeader {
  readonly alg?: unknown;
  readonly typ?: unknown;
  readonly kid?: unknown;
  readonly crit?: unknown;
}

/** The size that Node accepts for all headers together. */
const maxTokenLength = 16_384;

/** Two names of one algorithm. */
const publicAlgorithms = ['EdDSA', 'Ed25519'];
const processAlgorithm = 'HS256';

const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$/;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Verifies a token and returns its claims. The `kid` decides which key and which algorithm are used; the `alg` of the
 * token must be that algorithm. So no key is ever used with an algorithm that it was not made for.
 */
export function verifyToken(token: string, keys: VerificationKeys): Claims | Promise<Claims> {
  if (token.length > maxTokenLength) {
    refuseContext('TOKEN_TOO_LARGE', `The token is longer than ${maxTokenLength} characters.`);
  }
  const { alg, typ, kid, crit } = readTokenHeader(token);
  const isOfProcess = isProcessKeyId(kid);
  const accepted = isOfProcess ? [processAlgorithm] : publicAlgorithms;
  if (typeof alg !== 'string' || !accepted.includes(alg)) {
    const only = isOfProcess ? 'HS256' : 'Ed25519';
    refuseContext('TOKEN_ALGORITHM', `The token is signed with ${quoteValue(alg)}; only ${only} is accepted.`);
  }
  if (typ !== 'txntoken+jwt') {
    refuseContext('TOKEN_TYPE', `The token is of type ${quoteValue(typ)}, not "txntoken+jwt".`);
  }
  if (crit !== undefined) refuseContext('TOKEN_MALFORMED', 'The token needs an extension that is not supported.');
  return isOfProcess ? verifyForProcess(token, kid, keys) : verifyPublicly(token, kid, keys);
}

function verifyForProcess(token: string, kid: string, { keyFile }: VerificationKeys): Claims {
  const key = keyFile === undefined ? undefined : findContextKey(keyFile, kid);
  if (key === undefined) refuseUnknownKey(kid, 'which is not the key of this process');
  const end = token.lastIndexOf('.');
  if (!hasValidHmac(token.slice(0, end), token.slice(end + 1), key)) refuseSignature();
  return parseClaims(Buffer.from(token.slice(token.indexOf('.') + 1, end), 'base64url'));
}

async function verifyPublicly(token: string, kid: unknown, { publicKeys }: VerificationKeys): Promise<Claims> {
  if (publicKeys === undefined) {
    refuseContext(
      'KEYS_MISSING',
      'There are no keys to verify the context with: set AMBIT_JWKS, or pass "jwksUri" or "keys".',
    );
  }
  const key = typeof kid === 'string' ? await getKeyFinder(publicKeys)(kid) : undefined;
  if (key === undefined) refuseUnknownKey(kid, 'which is not among the known keys');
  return parseClaims(await verifyPayload(token, key));
}

async function verifyPayload(token: string, key: Parameters<typeof compactVerify>[1]): Promise<Uint8Array> {
  try {
    return (await compactVerify(token, key, { algorithms: publicAlgorithms })).payload;
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') refuseSignature();
    refuseContext('TOKEN_MALFORMED', 'The token is not a compact JWS that can be verified.');
  }
}

/** The last header: all tokens that one key signs have the same one. */
let lastHeader: { readonly text: string; readonly header: TokenHeader } | undefined;

function readTokenHeader(token: string): TokenHeader {
  const text = compactForm.test(token) ? token.slice(0, token.indexOf('.')) : '';
  if (lastHeader?.text === text) return lastHeader.header;
  let header: unknown;
  try {
    header = JSON.parse(utf8.decode(Buffer.from(text, 'base64url')));
  } catch {
    header = undefined;
  }
  if (!isObject(header)) refuseContext('TOKEN_MALFORMED', 'The token is not a compact JWS.');
  lastHeader = { text, header };
  return header;
}

function parseClaims(payload: Uint8Array): Claims {
  let claims: unknown;
  try {
    claims = JSON.parse(utf8.decode(payload));
  } catch {
    claims = undefined;
  }
  if (!isObject(claims)) refuseContext('CLAIMS_INVALID', 'The token does not contain a JSON object.');
  return claims;
}

function refuseUnknownKey(kid: unknown, why: string): never {
  refuseContext('KEY_UNKNOWN', `The token is signed with the key ${quoteValue(kid)}, ${why}.`);
}

function refuseSignature(): never {
  refuseContext(
    'SIGNATURE_INVALID',
    'The signature of the token is not valid: the token was changed, or signed by someone else.',
  );
}

/** The longest lifetime Ambit gives a token. */
const maxLifetimeSeconds = 60;

/** The claims of a token, with the type of each member checked. */
export interface TokenClaims extends Omit<ActingSession, 'id'> {
  readonly issuer: string;
  readonly audience: string;
  /** Seconds since 1970, as in the token. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly id: string;
  readonly sessionId: string;
  readonly correlationId: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly argumentsDigest: string | undefined;
  /** The arguments could not be hashed when the token was made, and are not bound. */
  readonly argumentsRaw: boolean;
}

export function readClaims(token: Claims): TokenClaims {
  const facts = isObject(token['tctx']) ? token['tctx'] : throwInvalidClaim('tctx');
  const actor = token['act'];
  if (actor !== undefined && actor !== null && !isObject(actor)) throwInvalidClaim('act');
  for (const name of ['txn', 'req_wl', 'scope']) readText(token, name);
  return {
    issuer: readText(token, 'iss'),
    audience: readText(token, 'aud'),
    issuedAt: readSeconds(token, 'iat'),
    expiresAt: readSeconds(token, 'exp'),
    id: readText(token, 'jti'),
    userId: readText(token, 'sub'),
    agentId: isObject(actor) ? readOptionalText(actor, 'sub', 'act.sub') : undefined,
    sessionId: readText(facts, 'sessionId'),
    correlationId: readText(facts, 'correlationId'),
    workspaceId: readOptionalText(facts, 'workspaceId'),
    trustLevel: parseTrustLevel(facts['trustLevel']) ?? throwInvalidClaim('tctx.trustLevel'),
    permissions: readPermissions(facts['permissions']),
    method: readText(facts, 'method'),
    name: readOptionalText(facts, 'name'),
    argumentsDigest: readOptionalText(facts, 'argsSha256'),
    argumentsRaw: facts['argsRaw'] === true,
  };
}

function readText(members: Claims, name: string): string {
  const value = members[name];
  return typeof value === 'string' && value !== '' ? value : throwInvalidClaim(name);
}

function readOptionalText(members: Claims, name: string, shown = name): string | undefined {
  const value = members[name];
  if (value === undefined || value === null || value === '') return undefined;
  return typeof value === 'string' ? value : throwInvalidClaim(shown);
}

function readSeconds(members: Claims, name: string): number {
  const value = members[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : throwInvalidClaim(name);
}

function readPermissions(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : throwInvalidClaim('tctx.permissions');
  return list.every((item) => typeof item === 'string') ? (list as string[]) : throwInvalidClaim('tctx.permissions');
}

function throwInvalidClaim(name: string): never {
  refuseContext('CLAIMS_INVALID', `The claim "${name}" of the token is missing or of the wrong kind.`);
}

export function checkTimes(claims: TokenClaims, now: number, skew: number): void {
  const { issuedAt, expiresAt } = claims;
  const life = expiresAt - issuedAt;
  // Each condition is written so that NaN fails it.
  if (!(life > 0 && life <= maxLifetimeSeconds)) {
    refuseContext('TOKEN_LIFETIME', `The token lives for ${life} seconds; at most ${maxLifetimeSeconds} are accepted.`);
  }
  if (!(issuedAt <= now / 1000 + skew)) {
    refuseContext('TOKEN_NOT_YET_VALID', 'The token was issued in the future: compare the clocks of the two machines.');
  }
  if (!(expiresAt > now / 1000 - skew)) refuseContext('TOKEN_EXPIRED', 'The token has expired.');
}

/** Checks the audience; `expected` is undefined if this server was not told its own name. */
export function checkAudience(claims: TokenClaims, expected: readonly string[] | undefined, call: IncomingCall): void {
  const { audience } = claims;
  if (expected === undefined && call.transport === 'http') {
    refuseContext(
      'AUDIENCE_UNKNOWN',
      'This server does not know its own audience: set the option "audience" or AMBIT_AUDIENCE to its address in the configuration of Ambit.',
    );
  }
  // Only the process that started this one can write to its pipe, so any stdio server name may be ours.
  const meant = expected?.some((name) => isSameAudience(name, audience)) ?? /^ambit:server:./.test(audience);
  if (!meant)
    refuseContext('AUDIENCE_MISMATCH', `The token is meant for ${quoteValue(audience)}, not for this server.`);
}

function isSameAudience(one: string, other: string): boolean {
  return (
    one === other ||
    (/^https?:/i.test(one) && URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href)
  );
}

/** Checks that the token was made for this very request. */
export function checkBinding(claims: TokenClaims, call: IncomingCall): void {
  if (call.method === undefined) {
    refuseContext(
      'CALL_UNKNOWN',
      'The call is not known: use secureServer() or withSession(), or pass method, name and arguments.',
    );
  }
  if (claims.method !== call.method) {
    refuseContext(
      'METHOD_MISMATCH',
      `The token is for ${quoteValue(claims.method)}, the call is ${quoteValue(call.method)}.`,
    );
  }
  const isTool = call.method === 'tools/call';
  if (isTool && call.name === undefined) {
    refuseContext('CALL_UNKNOWN', 'The tool is not known: pass its name.');
  }
  if (claims.name === undefined ? isTool : claims.name !== call.name) {
    refuseContext(
      'NAME_MISMATCH',
      `The token is for ${quoteValue(claims.name)}, the call is for ${quoteValue(call.name)}.`,
    );
  }
  if (claims.argumentsRaw) return;
  if (claims.argumentsDigest === undefined ? isTool : claims.argumentsDigest !== digestArguments(call.arguments)) {
    refuseContext(
      'ARGUMENTS_MISMATCH',
      'The token is for other arguments. Where the schema of the tool fills in defaults or drops members, use secureServer(), which sees the original arguments.',
    );
  }
}
