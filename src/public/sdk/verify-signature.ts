import { compactVerify } from 'jose';
import { isObject } from './call.ts';
import { quoteValue, refuseContext } from './context.ts';
import { findContextKey, hasValidHmac, isProcessKeyId } from './context-key.ts';
import { getKeyFinder, type KeySource } from './keys.ts';

/** The keys that a server verifies with. A token chooses among them by its `kid` alone. */
export interface VerificationKeys {
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
