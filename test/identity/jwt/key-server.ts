import { createPublicKey, type KeyObject } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, type JWK, type JWTHeaderParameters, SignJWT } from 'jose';
import { onTestFinished } from 'vitest';
import type { JwtIssuer } from '../../../src/identity/jwt/verify-jwt.ts';
import { createJwtVerifier, type VerifiedJwt } from '../../../src/identity/jwt/verify-jwt.ts';
import { parseToken } from '../../../src/identity/token.ts';
import { freshKey } from '../../fresh-key.ts';

export const audience = 'https://gw.example/mcp';

export interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: KeyObject;
  readonly publicJwk: JWK;
}

export async function signingKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const privateKey = freshKey(alg);
  return {
    kid,
    alg,
    privateKey,
    publicJwk: { ...(await exportJWK(createPublicKey(privateKey))), kid, alg, use: 'sig' },
  };
}

/** The key set of an issuer over HTTP, whose answer can be changed and whose questions are counted. */
export async function keyServer() {
  const first = await signingKey('first');
  const state = {
    keys: [first.publicJwk] as JWK[],
    status: 200,
    headers: {} as Record<string, string>,
    asked: 0,
    body: undefined as string | undefined,
    /** Called with each question. The answer waits for what it returns. */
    onAsked: (): unknown => undefined,
  };
  const server = createServer(async (_request, response) => {
    state.asked++;
    await state.onAsked();
    response.writeHead(state.status, { 'content-type': 'application/json', ...state.headers });
    response.end(state.body ?? JSON.stringify({ keys: state.keys }));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { issuer, jwksUri: `${issuer}/jwks`, state, first, close };
}

/** The same, which is gone with the test. */
export async function keyServerForTest(): Promise<KeyServer> {
  const server = await keyServer();
  onTestFinished(server.close);
  return server;
}

export type KeyServer = Awaited<ReturnType<typeof keyServer>>;

export function described(server: KeyServer, more: Partial<JwtIssuer> = {}): JwtIssuer {
  return {
    issuer: server.issuer,
    audience: [audience],
    jwksUri: server.jwksUri,
    tokenType: 'at+jwt',
    algorithms: ['ES256', 'RS256'],
    clockToleranceSeconds: 5,
    scopes: [],
    permissions: {},
    ...more,
  };
}

export interface TokenDraft {
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly header?: Partial<JWTHeaderParameters>;
  readonly key?: SigningKey;
}

const absent = Symbol('absent');

export { absent };

export async function tokenOf(server: KeyServer, { claims = {}, header = {}, key = server.first }: TokenDraft = {}) {
  const now = Math.floor(Date.now() / 1000);
  const all: Record<string, unknown> = {
    iss: server.issuer,
    aud: audience,
    sub: 'alice',
    iat: now,
    exp: now + 300,
    ...claims,
  };
  const payload = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== absent));
  return new SignJWT(payload)
    .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt', ...header })
    .sign(key.privateKey);
}

/** A verifier whose clock moves only by hand. */
export function verifying(issuers: readonly JwtIssuer[]) {
  const clock = { ahead: 0 };
  const [date, count] = [Date.now(), performance.now()];
  const reasons: string[] = [];
  const verifier = createJwtVerifier({
    issuers,
    now: () => date + clock.ahead,
    elapsed: () => count + clock.ahead,
    onRefused: (why) => reasons.push(why),
  });
  return {
    clock,
    reasons,
    verify: async (token: string): Promise<VerifiedJwt> => verifier.verify(parseToken(token)),
  };
}
