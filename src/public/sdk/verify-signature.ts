import { compactVerify, decodeProtectedHeader } from 'jose';
import { isObject } from './call.ts';
import { quoteValue, refuseContext } from './context.ts';
import { getKeyFinder, type KeySource } from './keys.ts';

/** The size that Node accepts for all headers together. */
const maxTokenLength = 16_384;

/** Two names of one algorithm; all others are refused before a key is searched. */
const algorithms = ['EdDSA', 'Ed25519'];

/** Verifies a token and returns its claims. The token chooses only the key (`kid`), not how it is checked. */
export async function verifyToken(token: string, source: KeySource): Promise<Readonly<Record<string, unknown>>> {
  if (token.length > maxTokenLength) {
    refuseContext('TOKEN_TOO_LARGE', `The token is longer than ${maxTokenLength} characters.`);
  }
  const { alg, typ, kid } = readTokenHeader(token);
  if (typeof alg !== 'string' || !algorithms.includes(alg)) {
    refuseContext('TOKEN_ALGORITHM', `The token is signed with ${quoteValue(alg)}; only Ed25519 is accepted.`);
  }
  if (typ !== 'txntoken+jwt') {
    refuseContext('TOKEN_TYPE', `The token is of type ${quoteValue(typ)}, not "txntoken+jwt".`);
  }
  const key = typeof kid === 'string' ? await getKeyFinder(source)(kid) : undefined;
  if (key === undefined) {
    refuseContext(
      'KEY_UNKNOWN',
      `The token is signed with the key ${quoteValue(kid)}, which is not among the known keys.`,
    );
  }
  const payload = await verifyPayload(token, key);
  let claims: unknown;
  try {
    claims = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
  } catch {
    claims = undefined;
  }
  if (!isObject(claims)) refuseContext('CLAIMS_INVALID', 'The token does not contain a JSON object.');
  return claims;
}

function readTokenHeader(token: string): ReturnType<typeof decodeProtectedHeader> {
  try {
    return decodeProtectedHeader(token);
  } catch {
    refuseContext('TOKEN_MALFORMED', 'The token is not a compact JWS.');
  }
}

async function verifyPayload(token: string, key: Parameters<typeof compactVerify>[1]): Promise<Uint8Array> {
  try {
    return (await compactVerify(token, key, { algorithms })).payload;
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') {
      refuseContext(
        'SIGNATURE_INVALID',
        'The signature of the token is not valid: the token was changed, or signed by someone else.',
      );
    }
    refuseContext('TOKEN_MALFORMED', 'The token is not a compact JWS that can be verified.');
  }
}
