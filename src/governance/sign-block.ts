import { createHash, sign } from 'node:crypto';
import type { SigningKeys } from '../context/signing-keys.ts';

export const blockKey = 'ambit/context-block';

/** Whose block it is, and what it is. */
export interface BlockFacts {
  readonly sessionId: string;
  readonly userId: string;
  readonly kind: 'block' | 'notice';
}

/** Makes the content block that carries a text, as JSON: what it says and to whom can be proven by the keys published. */
export function createBlockSigner(keys: Pick<SigningKeys, 'current'>, issuer: string, now: () => number = Date.now) {
  return (text: string, { sessionId, userId, kind }: BlockFacts): string => {
    const { kid, key } = keys.current();
    const head = encoded({ alg: 'EdDSA', typ: 'ambit-block+jwt', kid });
    const sha256 = createHash('sha256').update(text).digest('hex');
    const iat = Math.floor(now() / 1000);
    const signed = `${head}.${encoded({ iss: issuer, iat, sub: userId, sid: sessionId, kind, sha256 })}`;
    const token = `${signed}.${sign(null, Buffer.from(signed, 'latin1'), key).toString('base64url')}`;
    return JSON.stringify({ type: 'text', text, _meta: { [blockKey]: { kind, sha256, token } } });
  };
}

export type BlockSigner = ReturnType<typeof createBlockSigner>;

function encoded(claims: object): string {
  return Buffer.from(JSON.stringify(claims)).toString('base64url');
}
