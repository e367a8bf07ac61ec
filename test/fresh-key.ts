import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';

const kinds: Readonly<Record<string, readonly [string, object]>> = {
  EdDSA: ['ed25519', {}],
  ES256: ['ec', { namedCurve: 'P-256' }],
  RS256: ['rsa', { modulusLength: 2048 }],
};

/** Makes a private key. It is read from its DER form: Node can hang when a key is exported that was just made. */
export function freshKey(alg: string): KeyObject {
  const [type, options] = kinds[alg] ?? [];
  const { privateKey } = generateKeyPairSync(type as 'ed25519', {
    ...options,
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  return createPrivateKey({ key: privateKey, type: 'pkcs8', format: 'der' });
}
