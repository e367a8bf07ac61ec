import { createHash, createPublicKey, type KeyObject, randomUUID } from 'node:crypto';
import { CompactSign, calculateJwkThumbprint } from 'jose';
import { freshKey } from '../../fresh-key.ts';

/** A gateway's key and what it would sign, made from the written contract alone: the sending half is not used here. */
export interface Signer {
  readonly kid: string;
  readonly publicJwk: { kty: string; crv: string; x: string; kid: string };
  readonly privateKey: KeyObject;
  readonly jwks: { keys: object[] };
  sign(claims: object, header?: Record<string, unknown>): Promise<string>;
}

export async function createSigner(): Promise<Signer> {
  const privateKey = freshKey('EdDSA');
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' }) as { x: string };
  const bare = { kty: 'OKP', crv: 'Ed25519', x };
  const kid = await calculateJwkThumbprint(bare);
  const publicJwk = { ...bare, kid };
  return {
    kid,
    publicJwk,
    privateKey,
    jwks: { keys: [{ ...publicJwk, use: 'sig', alg: 'EdDSA' }] },
    sign: (claims, header = {}) =>
      new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
        .setProtectedHeader({ alg: 'Ed25519', typ: 'txntoken+jwt', kid, ...header })
        .sign(privateKey),
  };
}

export interface ClaimOptions {
  readonly method?: string;
  readonly name?: string;
  /** The JSON text whose canonical form is `canonical`; `{}` by default. */
  readonly canonical?: string;
  readonly aud?: string;
  readonly session?: string;
  readonly trust?: string;
  readonly workspace?: string | null;
  readonly permissions?: readonly string[];
  readonly now?: number;
}

/** The claims of contract §5 for one call. `canonical` is written out by each test: no code of ours computes it. */
export function createClaims(asked: ClaimOptions = {}) {
  const { method = 'tools/call', name = 'delete_note', canonical = '{}', aud = 'ambit:server:notes' } = asked;
  const iat = Math.floor((asked.now ?? Date.now()) / 1000);
  return {
    iss: 'http://127.0.0.1:7420',
    aud,
    iat,
    exp: iat + 60,
    txn: randomUUID(),
    jti: randomUUID(),
    req_wl: 'ambit',
    sub: 'ada',
    act: { sub: 'coder' },
    scope: method === 'tools/call' ? `tool:${name}` : method,
    tctx: {
      sessionId: asked.session ?? 'session-0123456789',
      correlationId: randomUUID(),
      workspaceId: asked.workspace === undefined ? 'garden' : asked.workspace,
      trustLevel: asked.trust ?? 'direct',
      permissions: asked.permissions ?? ['notes:write'],
      method,
      name,
      argsSha256: createHash('sha256').update(canonical).digest('hex'),
    },
  };
}

export type TestClaims = ReturnType<typeof createClaims>;

/** `_meta` as the gateway writes it: the plain object, and the token in it. */
export function createMeta(token: string, claims: TestClaims, plain: object = {}) {
  const { sessionId, correlationId, workspaceId, trustLevel, permissions } = claims.tctx;
  return {
    'ambit/context': {
      sessionId,
      correlationId,
      userId: claims.sub,
      agentId: claims.act.sub,
      workspaceId,
      workspacePath: '/srv/garden',
      trustLevel,
      permissions,
      issuedAt: new Date(claims.iat * 1000).toISOString(),
      expiresAt: new Date(claims.exp * 1000).toISOString(),
      token,
      ...plain,
    },
  };
}
