import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { call, expectRefused, readMeta, readSigned, signer } from './read-signed.ts';
import { createClaims, createMeta, createSigner } from './signer.ts';

const stranger = await createSigner();

describe('a valid context', () => {
  test.each(['EdDSA', 'Ed25519'])('P12: is verified, signed as %s, and outranks the environment', async (alg) => {
    const claims = createClaims();
    expect(await readSigned(claims, { alg })).toEqual({
      status: 'verified',
      sessionId: 'session-0123456789',
      correlationId: claims.tctx.correlationId,
      userId: 'ada',
      agentId: 'coder',
      workspaceId: 'garden',
      workspacePath: '/srv/garden',
      trustLevel: 'direct',
      permissions: ['notes:write'],
      issuedAt: claims.iat * 1000,
      expiresAt: claims.exp * 1000,
      reason: undefined,
      code: undefined,
    });
  });

  test('cannot be written to', async () => {
    const context = await readSigned(createClaims());
    expect(() => Object.assign(context, { trustLevel: 'direct' })).toThrow(TypeError);
    expect(() => (context.permissions as string[]).push('everything')).toThrow(TypeError);
  });

  test('is bound to the arguments in canonical form, whatever order they came in', async () => {
    const canonical =
      '{"__proto__":1,"a":[1e+30,0.1,0,"é\\n\\u001f"],"toJSON":"x","z":{"":null,"\u20ac":true,"\ud83d\ude00":false,"\ufb33":1}}';
    const sent = JSON.parse(
      '{"z":{"\ufb33":1,"\ud83d\ude00":false,"":null,"\u20ac":true},"toJSON":"x","__proto__":1,"a":[1e30,0.10,-0,"\\u00e9\\n\\u001f"]}',
    );
    const claims = createClaims({ canonical });
    const meta = createMeta(await signer.sign(claims), claims);
    expect(await readMeta(meta, {}, { ...call, arguments: sent })).toMatchObject({ status: 'verified' });
  });

  test('is bound to {} where there are no arguments', async () => {
    const claims = createClaims();
    expect(await readMeta(createMeta(await signer.sign(claims), claims), {}, { name: 'delete_note' })).toMatchObject({
      status: 'verified',
    });
  });

  test('may leave arguments unbound where the gateway said so', async () => {
    const { argsSha256: _, ...tctx } = createClaims().tctx;
    const claims = { ...createClaims(), tctx: { ...tctx, argsRaw: true } };
    const meta = createMeta(await signer.sign(claims), createClaims());
    expect(await readMeta(meta, {}, { ...call, arguments: { big: 2 ** 60 } })).toMatchObject({ status: 'verified' });
  });

  test('without agent, workspace and permissions says so', async () => {
    const { act: _, ...claims } = createClaims({ workspace: null });
    const { permissions: __, ...tctx } = claims.tctx;
    const token = await signer.sign({ ...claims, tctx });
    expect(await readMeta({ 'ambit/context': { token } })).toMatchObject({
      status: 'verified',
      agentId: undefined,
      workspaceId: undefined,
      workspacePath: undefined,
      permissions: [],
    });
  });

  test('other methods are bound by method and name', async () => {
    const claims = createClaims({ method: 'resources/read', name: 'note://1' });
    const meta = createMeta(await signer.sign(claims), claims);
    const details = { method: 'resources/read', name: 'note://2' };
    expectRefused(await readMeta(meta, {}, details), 'NAME_MISMATCH', /note:\/\/1.*note:\/\/2/);
    expect(await readMeta(meta, {}, { ...details, name: 'note://1' })).toMatchObject({ status: 'verified' });
  });
});

describe('a token that was tampered with', () => {
  const paths = Object.entries(createClaims()).flatMap(([name, value]) =>
    typeof value === 'object' ? Object.keys(value).map((inner) => [name, inner]) : [[name]],
  );

  test.each(paths.map((path) => [path.join('.'), path]))('P12: %s changed: the signature fails', async (_, path) => {
    const claims = createClaims();
    const [header, payload, signature] = (await signer.sign(claims)).split('.') as [string, string, string];
    const changed = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const holder = path.length === 2 ? changed[path[0] as string] : changed;
    const last = path.at(-1) as string;
    holder[last] = typeof holder[last] === 'number' ? holder[last] + 1 : 'changed';
    const token = `${header}.${Buffer.from(JSON.stringify(changed)).toString('base64url')}.${signature}`;
    expectRefused(await readMeta(createMeta(token, claims)), 'SIGNATURE_INVALID', /changed, or signed by someone else/);
  });

  test.each([
    ['not a token', 'TOKEN_MALFORMED'],
    ['a.b', 'TOKEN_MALFORMED'],
    ['', 'TOKEN_MALFORMED'],
    ['x'.repeat(16_385), 'TOKEN_TOO_LARGE'],
    [{ token: 1 }, 'TOKEN_MALFORMED'],
    [null, 'TOKEN_MALFORMED'],
  ])('%.20s… in place of a token', async (token, code) => {
    expectRefused(await readMeta({ 'ambit/context': { token } }), code, /token/);
  });

  test('a huge token with a good signature is refused before it is decoded', async () => {
    const claims = { ...createClaims(), padding: 'x'.repeat(5_000_000) };
    expectRefused(
      await readMeta({ 'ambit/context': { token: await signer.sign(claims) } }),
      'TOKEN_TOO_LARGE',
      /longer/,
    );
  });

  test.each([['a string'], [[]], [7], [null]])('%j where the context should be', async (context) => {
    expectRefused(await readMeta({ 'ambit/context': context }), 'CONTEXT_MALFORMED', /not an object/);
  });

  test('a plain context without a token is refused', async () => {
    const { token: _, ...plain } = createMeta('', createClaims())['ambit/context'];
    expectRefused(await readMeta({ 'ambit/context': plain }), 'TOKEN_MISSING', /its origin is not proven/);
  });

  test('signed values overrule the plain ones beside them, with a reason', async () => {
    const claims = createClaims({ trust: 'sandboxed' });
    const forged = {
      trustLevel: 'direct',
      userId: 'root',
      workspaceId: 'prod',
      permissions: ['*'],
      sessionId: 'other',
    };
    const context = await readMeta(createMeta(await signer.sign(claims), claims, forged));
    expect(context).toMatchObject({
      status: 'verified',
      trustLevel: 'sandboxed',
      userId: 'ada',
      workspaceId: 'garden',
      sessionId: 'session-0123456789',
      permissions: ['notes:write'],
    });
    expect(context.reason).toMatch(/sessionId, userId, workspaceId, trustLevel/);
  });
});

describe('an invalid signature', () => {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

  test('alg: none', async () => {
    for (const alg of ['none', 'None', 'NONE']) {
      const token = `${encoded({ alg, typ: 'txntoken+jwt', kid: signer.kid })}.${encoded(createClaims())}.`;
      expectRefused(await readMeta({ 'ambit/context': { token } }), 'TOKEN_ALGORITHM', /only Ed25519/);
    }
  });

  test('HS256 with the public key as its secret', async () => {
    const input = `${encoded({ alg: 'HS256', typ: 'txntoken+jwt', kid: signer.kid })}.${encoded(createClaims())}`;
    for (const secret of [
      signer.publicJwk.x,
      Buffer.from(signer.publicJwk.x, 'base64url'),
      JSON.stringify(signer.publicJwk),
    ]) {
      const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
      expectRefused(await readMeta({ 'ambit/context': { token } }), 'TOKEN_ALGORITHM', /HS256/);
    }
  });

  test('a foreign key is refused under its own kid and under ours', async () => {
    const claims = createClaims();
    expectRefused(
      await readMeta(createMeta(await stranger.sign(claims), claims)),
      'KEY_UNKNOWN',
      /not among the known keys/,
    );
    const disguised = await stranger.sign(claims, { kid: signer.kid });
    expectRefused(await readMeta(createMeta(disguised, claims)), 'SIGNATURE_INVALID', /someone else/);
  });

  test('a key or address in the token header is ignored', async () => {
    const claims = createClaims();
    const { kid: _, ...jwk } = stranger.publicJwk;
    for (const kid of [signer.kid, stranger.kid, undefined]) {
      const token = await stranger.sign(claims, { jwk, jku: 'http://127.0.0.1:1/jwks', kid });
      expectRefused(
        await readMeta(createMeta(token, claims)),
        kid === signer.kid ? 'SIGNATURE_INVALID' : 'KEY_UNKNOWN',
        /signed by someone else|not among the known keys/,
      );
    }
  });

  test.each(['JWT', 'at+jwt', 'TXNTOKEN+JWT', undefined])('typ %s', async (typ) => {
    expectRefused(await readSigned(createClaims(), { typ }), 'TOKEN_TYPE', /not "txntoken\+jwt"/);
  });
});
