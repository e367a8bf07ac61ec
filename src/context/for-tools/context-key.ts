import { createHmac, createSecretKey, randomBytes } from 'node:crypto';

/** The key of one process. It signs the contexts of all requests to this process, and of no other. */
export interface ContextKey {
  readonly kid: string;
  /** The protected header of its tokens, encoded. */
  readonly header: string;
  /** Signs ASCII text. The signature is base64url. */
  sign(text: string): string;
  /** The content of the key file: a JWK. */
  readonly jwk: string;
  /** The secret in the JWK. It must never be logged. */
  readonly secret: string;
}

/** Creates a new random key. Its `kid` is never that of an Ed25519 key, which is a thumbprint of 43 characters. */
export function createContextKey(): ContextKey {
  const bytes = randomBytes(32);
  const kid = `process-${randomBytes(12).toString('base64url')}`;
  const secret = bytes.toString('base64url');
  const key = createSecretKey(bytes);
  return {
    kid,
    secret,
    header: Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'txntoken+jwt', kid })).toString('base64url'),
    sign: (text) => createHmac('sha256', key).update(text, 'latin1').digest('base64url'),
    jwk: JSON.stringify({ kty: 'oct', k: secret, alg: 'HS256', kid, use: 'sig' }),
  };
}
