import { hash, randomBytes } from 'node:crypto';

/** The key of one process. It signs the contexts of all requests to this process, and of no other. */
export interface ContextKey {
  readonly kid: string;
  /** The protected header of its tokens, encoded. */
  readonly header: string;
  /** Signs one or two ASCII texts in a row. The signature is base64url. */
  sign(start: string, rest?: string): string;
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
  return {
    kid,
    secret,
    header: Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'txntoken+jwt', kid })).toString('base64url'),
    sign: createHmacSigner(bytes),
    jwk: JSON.stringify({ kty: 'oct', k: secret, alg: 'HS256', kid, use: 'sig' }),
  };
}

const blockBytes = 64;
const digestBytes = 32;
/** Only a token with a very long name is longer. Nothing of such a token is kept. */
const maxKeptBytes = 8192;

/**
 * Creates a function that computes HMAC-SHA256 (RFC 2104) of two ASCII texts in a row, as base64url. A token is signed for
 * each call, and two hashes in one step each take half the time of an `Hmac` object. Calls with the same `start` as the
 * call before do not write it again. The key must not be longer than a block.
 */
export function createHmacSigner(key: Buffer): ContextKey['sign'] {
  const inner = Buffer.alloc(blockBytes + maxKeptBytes);
  let hashed = inner;
  let written = '';
  const outer = Buffer.alloc(blockBytes + digestBytes);
  for (let i = 0; i < blockBytes; i++) {
    inner[i] = (key[i] ?? 0) ^ 0x36;
    outer[i] = (key[i] ?? 0) ^ 0x5c;
  }
  return function sign(start, rest = '') {
    const restStart = blockBytes + start.length;
    const length = restStart + rest.length;
    if (length > inner.length) {
      return finish(Buffer.concat([inner.subarray(0, blockBytes), Buffer.from(start + rest, 'latin1')]));
    }
    if (hashed.length !== length) hashed = inner.subarray(0, length);
    if (start !== written) inner.write(start, blockBytes, 'latin1');
    written = start;
    inner.write(rest, restStart, 'latin1');
    return finish(hashed);
  };

  function finish(text: Buffer): string {
    outer.write(hash('sha256', text, 'binary'), blockBytes, 'binary');
    return hash('sha256', outer, 'base64url');
  }
}
