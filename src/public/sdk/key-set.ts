import { calculateJwkThumbprint, importJWK } from 'jose';
import { isObject } from './call.ts';
import { Refusal } from './refusal.ts';

/** What verifies a signature, by `kid`. */
export type KeySet = ReadonlyMap<string, Awaited<ReturnType<typeof importJWK>>>;

const maxKeys = 32;

/** Public Ed25519 keys out of a JWKS; whatever else it holds cannot have signed a context. */
export async function readKeySet(jwks: unknown): Promise<KeySet> {
  const listed = isObject(jwks) ? jwks['keys'] : undefined;
  if (!Array.isArray(listed)) throw new Refusal('KEYS_UNUSABLE', 'The keys are not a JWKS: {"keys": […]} is expected.');
  const keys = new Map<string, Awaited<ReturnType<typeof importJWK>>>();
  for (const jwk of listed.slice(0, maxKeys)) {
    if (!isObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519' || typeof jwk['x'] !== 'string') continue;
    if (jwk['use'] !== undefined && jwk['use'] !== 'sig') continue;
    // Only the public half is taken, whatever else was put there by mistake.
    const publicKey = { kty: 'OKP', crv: 'Ed25519', x: jwk['x'] };
    try {
      const kid = typeof jwk['kid'] === 'string' ? jwk['kid'] : await calculateJwkThumbprint(publicKey);
      if (!keys.has(kid)) keys.set(kid, await importJWK(publicKey, 'EdDSA'));
    } catch {
      // A key that cannot be read verifies nothing; the others still may.
    }
  }
  if (keys.size === 0) throw new Refusal('KEYS_UNUSABLE', 'The keys hold no Ed25519 public key.');
  return keys;
}

export async function parseKeySet(text: string): Promise<KeySet> {
  let jwks: unknown;
  try {
    jwks = JSON.parse(text);
  } catch {
    throw new Refusal(
      'KEYS_UNUSABLE',
      'The keys are not JSON, nor a path that starts with "/", nor an http(s) address.',
    );
  }
  return readKeySet(jwks);
}
