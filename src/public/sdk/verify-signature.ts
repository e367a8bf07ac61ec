import { compactVerify, decodeProtectedHeader } from 'jose';
import { isObject } from './call.ts';
import { quoted, Refusal } from './context.ts';
import { type KeySource, keysFrom } from './keys.ts';

/** As much as Node accepts in all headers together. */
const maxTokenLength = 16_384;

/** Two names of one algorithm; all others are refused before any key is looked at. */
const algorithms = ['EdDSA', 'Ed25519'];

/** The claims of a token that one of the keys has signed. Nothing in the token chooses how it is checked but its `kid`. */
export async function verifiedClaims(token: string, source: KeySource): Promise<Readonly<Record<string, unknown>>> {
  if (token.length > maxTokenLength) {
    throw new Refusal('TOKEN_TOO_LARGE', `The token is longer than ${maxTokenLength} characters.`);
  }
  const { alg, typ, kid } = headerOf(token);
  if (typeof alg !== 'string' || !algorithms.includes(alg)) {
    throw new Refusal('TOKEN_ALGORITHM', `The token is signed with ${quoted(alg)}; only Ed25519 is accepted.`);
  }
  if (typ !== 'txntoken+jwt') {
    throw new Refusal('TOKEN_TYPE', `The token is of type ${quoted(typ)}, not "txntoken+jwt".`);
  }
  const key = typeof kid === 'string' ? await keysFrom(source)(kid) : undefined;
  if (key === undefined) {
    throw new Refusal('KEY_UNKNOWN', `The token names the key ${quoted(kid)}, which is not among the keys.`);
  }
  const payload = await signedPayload(token, key);
  let claims: unknown;
  try {
    claims = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
  } catch {
    claims = undefined;
  }
  if (!isObject(claims)) throw new Refusal('CLAIMS_INVALID', 'The token does not hold a JSON object.');
  return claims;
}

function headerOf(token: string): ReturnType<typeof decodeProtectedHeader> {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw new Refusal('TOKEN_MALFORMED', 'The token is not a compact JWS.');
  }
}

async function signedPayload(token: string, key: Parameters<typeof compactVerify>[1]): Promise<Uint8Array> {
  try {
    return (await compactVerify(token, key, { algorithms })).payload;
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') {
      throw new Refusal(
        'SIGNATURE_INVALID',
        'The signature of the token does not hold: it was changed, or signed by someone else.',
      );
    }
    throw new Refusal('TOKEN_MALFORMED', 'The token is not a compact JWS that can be verified.');
  }
}
