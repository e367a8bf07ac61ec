import { createHmac } from 'node:crypto';
import { exportSPKI, importJWK, type JWK } from 'jose';
import { describe, expect, test } from 'vitest';
import {
  absent,
  audience,
  described,
  type KeyServer,
  keyServerForTest,
  signingKey,
  tokenOf,
  verifying,
} from './key-server.ts';

const refused = { code: 'UNAUTHENTICATED', message: 'The request has no valid credential.' };
const now = () => Math.floor(Date.now() / 1000);

function forged(header: object, claims: object, signature = ''): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part(header)}.${part(claims)}.${signature || 'AA'}`;
}

function hmac(header: object, claims: object, secret: string | Buffer): string {
  const unsigned = forged(header, claims).split('.').slice(0, 2).join('.');
  return `${unsigned}.${createHmac('sha256', secret).update(unsigned).digest('base64url')}`;
}

const claimsOf = (server: KeyServer) => ({ iss: server.issuer, aud: audience, sub: 'alice', exp: now() + 60 });

test('a good token names its user after the issuer, and is bounded by default', async () => {
  const server = await keyServerForTest();
  const { verify } = verifying([described(server)]);
  expect((await verify(await tokenOf(server))).principal).toMatchObject({
    kind: 'user',
    userId: `${new URL(server.issuer).host}|alice`,
    via: 'jwt',
    ceiling: { trustLevel: 'sandboxed', workspaces: null, scopes: null },
  });
});

describe('what is refused, and to its sender all alike', () => {
  const wrong: Record<string, object> = {
    'another audience': { aud: 'https://other.example/mcp' },
    'our audience with a slash more': { aud: `${audience}/` },
    'no audience': { aud: absent },
    'another issuer': { iss: 'https://other.example' },
    'no issuer': { iss: absent },
    'an issuer with a slash more': { iss: 'http://127.0.0.1/' },
    expired: { exp: now() - 60 },
    'no end': { exp: absent },
    'an end that is no number': { exp: 'tomorrow' },
    'not valid yet': { nbf: now() + 3600 },
    'no subject': { sub: absent },
    'an empty subject': { sub: '' },
    'a subject that is no text': { sub: 7 },
    'bound to a key of its holder': { cnf: { jkt: 'x' } },
  };
  test.each(Object.keys(wrong))('%s', async (name) => {
    const server = await keyServerForTest();
    const { verify, reasons } = verifying([described(server)]);
    await expect(verify(await tokenOf(server, { claims: { ...wrong[name] } }))).rejects.toMatchObject(refused);
    expect(reasons).toHaveLength(1);
  });

  test.each(['JWT', 'logout+jwt', 'txntoken+jwt', undefined])('the type %s', async (typ) => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server)]);
    await expect(verify(await tokenOf(server, { header: { typ } as object }))).rejects.toMatchObject(refused);
  });

  test('with plain JWTs taken, other types are still refused', async () => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server, { tokenType: 'jwt' })]);
    for (const typ of ['JWT', 'application/at+jwt', undefined]) {
      expect((await verify(await tokenOf(server, { header: { typ } as object }))).principal?.via).toBe('jwt');
    }
    await expect(verify(await tokenOf(server, { header: { typ: 'logout+jwt' } }))).rejects.toMatchObject(refused);
  });

  test.each(['none', 'None', 'NONE', ''])('no signature, algorithm %j', async (alg) => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server)]);
    const token = forged({ alg, kid: 'first', typ: 'at+jwt' }, claimsOf(server));
    await expect(verify(token)).rejects.toMatchObject(refused);
    await expect(verify(token.slice(0, -2))).rejects.toMatchObject(refused);
  });

  test('a secret made of the public key', async () => {
    const server = await keyServerForTest();
    const rsa = await signingKey('rsa', 'RS256');
    server.state.keys.push(rsa.publicJwk);
    const pem = await exportSPKI((await importJWK(rsa.publicJwk, 'RS256')) as Parameters<typeof exportSPKI>[0]);
    const { verify } = verifying([described(server)]);
    for (const secret of [pem, pem.trim(), JSON.stringify(rsa.publicJwk)]) {
      const header = { alg: 'HS256', kid: 'rsa', typ: 'at+jwt' };
      await expect(verify(hmac(header, claimsOf(server), secret))).rejects.toMatchObject(refused);
    }
  });

  test('a shared secret that the issuer itself publishes', async () => {
    const server = await keyServerForTest();
    const k = Buffer.from('0123456789abcdef0123456789abcdef');
    server.state.keys.push({ kty: 'oct', kid: 'shared', k: k.toString('base64url') } as JWK);
    const { verify } = verifying([described(server)]);
    const header = { alg: 'HS256', kid: 'shared', typ: 'at+jwt' };
    await expect(verify(hmac(header, claimsOf(server), k))).rejects.toMatchObject(refused);
  });

  test('an algorithm that the operator left out', async () => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server, { algorithms: ['RS256'] })]);
    await expect(verify(await tokenOf(server))).rejects.toMatchObject(refused);
  });

  test('a key that comes with the token, or an address of one', async () => {
    const server = await keyServerForTest();
    const mine = await signingKey('first');
    const evil = await keyServerForTest();
    const { verify } = verifying([described(server)]);
    for (const header of [{ jwk: mine.publicJwk }, { jku: evil.jwksUri }, { x5u: evil.jwksUri }]) {
      await expect(verify(await tokenOf(server, { key: mine, header }))).rejects.toMatchObject(refused);
    }
    expect(evil.state.asked).toBe(0);
  });

  test('the keys of one issuer under the name of another', async () => {
    const [a, b] = [await keyServerForTest(), await keyServerForTest()];
    const { verify } = verifying([described(a), described(b)]);
    await expect(verify(await tokenOf(a, { key: b.first }))).rejects.toMatchObject(refused);
    expect((await verify(await tokenOf(b))).principal?.userId).toBe(`${new URL(b.issuer).host}|alice`);
  });

  test('a header that must be understood and is not', async () => {
    const server = await keyServerForTest();
    const { verify, reasons } = verifying([described(server)]);
    const good = (await tokenOf(server)).split('.');
    const header = { alg: 'ES256', kid: 'first', typ: 'at+jwt', crit: ['\u001b[31mevil'], '\u001b[31mevil': 1 };
    const token = [Buffer.from(JSON.stringify(header)).toString('base64url'), good[1], good[2]].join('.');
    await expect(verify(token)).rejects.toMatchObject(refused);
    expect(reasons.join()).not.toContain('evil');
  });

  test('a token whose claims were changed, and what is no token', async () => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server)]);
    const [head, , signature] = (await tokenOf(server)).split('.');
    const body = Buffer.from(JSON.stringify({ ...claimsOf(server), sub: 'root' })).toString('base64url');
    for (const token of [`${head}.${body}.${signature}`, 'x', 'a.b.c', 'a.b.c.d.e', `${head}..${signature}`, '']) {
      await expect(verify(token)).rejects.toMatchObject(refused);
    }
  });
});

describe('names of users', () => {
  test.each(['a b', 'Ünïcode', 'https://x/y', 'x'.repeat(200), 'sha256:aa', 'a\u0000b'])(
    'the subject %j goes by its hash',
    async (sub) => {
      const server = await keyServerForTest();
      const { verify } = verifying([described(server)]);
      const name = (await verify(await tokenOf(server, { claims: { sub } }))).principal?.userId;
      expect(name).toMatch(/^127\.0\.0\.1:\d+\|sha256:[0-9a-f]{64}$/);
    },
  );

  test('nobody can choose a subject that is read as the hash of another', async () => {
    const server = await keyServerForTest();
    const { verify } = verifying([described(server, { userPrefix: 'corp' })]);
    const victim = (await verify(await tokenOf(server, { claims: { sub: 'a b' } }))).principal?.userId ?? '';
    const sub = victim.slice('corp|'.length);
    expect((await verify(await tokenOf(server, { claims: { sub } }))).principal?.userId).not.toBe(victim);
  });
});
