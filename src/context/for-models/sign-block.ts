import { createHash, sign } from 'node:crypto';
import type { SigningKeys } from '../for-tools/signing-keys.ts';

const blockKey = 'ambit/context-block';

/** Whose block it is, and what it is. */
export interface BlockFacts {
  readonly sessionId: string;
  readonly userId: string;
  readonly kind: 'block' | 'notice' | 'policy';
}

/**
 * Makes the content block that carries a text, as JSON: what it says and to whom can be proven by the keys published. A
 * server without keys says only what it is.
 */
export function createBlockSigner(
  keys: Pick<SigningKeys, 'current'> | undefined,
  issuer: string,
  now: () => number = Date.now,
): BlockSigner {
  return (text, { sessionId, userId, kind }) => {
    const sha256 = createHash('sha256').update(text).digest('hex');
    const carrying = (facts: object) => JSON.stringify({ type: 'text', text, _meta: { [blockKey]: facts } });
    if (keys === undefined) return carrying({ kind, sha256 });
    const { kid, key } = keys.current();
    const head = encoded({ alg: 'EdDSA', typ: 'ambit-block+jwt', kid });
    const iat = Math.floor(now() / 1000);
    const signed = `${head}.${encoded({ iss: issuer, iat, sub: userId, sid: sessionId, kind, sha256 })}`;
    const token = `${signed}.${sign(null, Buffer.from(signed, 'latin1'), key).toString('base64url')}`;
    return carrying({ kind, sha256, token });
  };
}

export type BlockSigner = (text: string, facts: BlockFacts) => string;

function encoded(claims: object): string {
  return Buffer.from(JSON.stringify(claims)).toString('base64url');
}
