import { createHmac } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { createReplayMemory, type ReadOptions, readContext } from '../../src/sdk/index.ts';
import { claimsFor, createSigner, metaWith, type Signer, type TestClaims } from './signer.ts';

let signer: Signer;
let stranger: Signer;
beforeAll(async () => {
  signer = await createSigner();
  stranger = await createSigner();
});

/** The environment of a process that Ambit started for a direct session: what must never be fallen back to. */
const spawned = () => ({
  AMBIT_SESSION_ID: 'from-the-environment',
  AMBIT_TRUST_LEVEL: 'direct',
  AMBIT_USER_ID: 'ada',
  AMBIT_WORKSPACE_ID: 'kitchen',
  AMBIT_JWKS: JSON.stringify(signer.jwks),
});

const call = { method: 'tools/call', name: 'delete_note', arguments: {} };

function read(meta: unknown, options: ReadOptions = {}, details: object = call) {
  return readContext({ meta, ...details }, { env: spawned(), ...options });
}

async function presented(claims: TestClaims, header: Record<string, unknown> = {}, options: ReadOptions = {}) {
  return read(metaWith(await signer.sign(claims, header), claims), options);
}

/** Refused, with the reason, and with nothing left that a tool could act on. */
function expectRefused(context: Awaited<ReturnType<typeof readContext>>, code: string, reason: RegExp) {
  expect(context).toMatchObject({ status: 'absent', code, permissions: [] });
  expect(context.reason).toMatch(reason);
  const { sessionId, userId, agentId, workspaceId, workspacePath, trustLevel } = context;
  expect([sessionId, userId, agentId, workspaceId, workspacePath, trustLevel]).toEqual(Array(6).fill(undefined));
}

describe('a context that holds', () => {
  test.each(['EdDSA', 'Ed25519'])('P12: is verified, signed as %s, and outranks the environment', async (alg) => {
    const claims = claimsFor();
    expect(await presented(claims, { alg })).toEqual({
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
    const context = await presented(claimsFor());
    expect(() => Object.assign(context, { trustLevel: 'direct' })).toThrow(TypeError);
    expect(() => (context.permissions as string[]).push('everything')).toThrow(TypeError);
  });

  test('is bound to the arguments in canonical form, whatever order they came in', async () => {
    const canonical =
      '{"__proto__":1,"a":[1e+30,0.1,0,"é\\n\\u001f"],"toJSON":"x","z":{"":null,"\u20ac":true,"\ud83d\ude00":false,"\ufb33":1}}';
    const sent = JSON.parse(
      '{"z":{"\ufb33":1,"\ud83d\ude00":false,"":null,"\u20ac":true},"toJSON":"x","__proto__":1,"a":[1e30,0.10,-0,"\\u00e9\\n\\u001f"]}',
    );
    const claims = claimsFor({ canonical });
    const meta = metaWith(await signer.sign(claims), claims);
    expect(await read(meta, {}, { ...call, arguments: sent })).toMatchObject({ status: 'verified' });
  });

  test('is bound to {} where there are no arguments', async () => {
    const claims = claimsFor();
    expect(await read(metaWith(await signer.sign(claims), claims), {}, { name: 'delete_note' })).toMatchObject({
      status: 'verified',
    });
  });

  test('may leave arguments unbound where the gateway said so', async () => {
    const { argsSha256: _, ...tctx } = claimsFor().tctx;
    const claims = { ...claimsFor(), tctx: { ...tctx, argsRaw: true } };
    const meta = metaWith(await signer.sign(claims), claimsFor());
    expect(await read(meta, {}, { ...call, arguments: { big: 2 ** 60 } })).toMatchObject({ status: 'verified' });
  });

  test('without agent, workspace and permissions says so', async () => {
    const { act: _, ...claims } = claimsFor({ workspace: null });
    const { permissions: __, ...tctx } = claims.tctx;
    const token = await signer.sign({ ...claims, tctx });
    expect(await read({ 'ambit/context': { token } })).toMatchObject({
      status: 'verified',
      agentId: undefined,
      workspaceId: undefined,
      workspacePath: undefined,
      permissions: [],
    });
  });

  test('other methods are bound by method and by what they name', async () => {
    const claims = claimsFor({ method: 'resources/read', name: 'note://1' });
    const meta = metaWith(await signer.sign(claims), claims);
    const details = { method: 'resources/read', name: 'note://2' };
    expectRefused(await read(meta, {}, details), 'NAME_MISMATCH', /note:\/\/1.*note:\/\/2/);
    expect(await read(meta, {}, { ...details, name: 'note://1' })).toMatchObject({ status: 'verified' });
  });
});

describe('a token that was tampered with', () => {
  const paths = Object.entries(claimsFor()).flatMap(([name, value]) =>
    typeof value === 'object' ? Object.keys(value).map((inner) => [name, inner]) : [[name]],
  );

  test.each(paths.map((path) => [path.join('.'), path]))('P12: %s changed: the signature fails', async (_, path) => {
    const claims = claimsFor();
    const [header, payload, signature] = (await signer.sign(claims)).split('.') as [string, string, string];
    const changed = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const holder = path.length === 2 ? changed[path[0] as string] : changed;
    const last = path.at(-1) as string;
    holder[last] = typeof holder[last] === 'number' ? holder[last] + 1 : 'changed';
    const token = `${header}.${Buffer.from(JSON.stringify(changed)).toString('base64url')}.${signature}`;
    expectRefused(await read(metaWith(token, claims)), 'SIGNATURE_INVALID', /changed, or signed by someone else/);
  });

  test.each([
    ['not a token', 'TOKEN_MALFORMED'],
    ['a.b', 'TOKEN_MALFORMED'],
    ['', 'TOKEN_MALFORMED'],
    ['x'.repeat(16_385), 'TOKEN_TOO_LARGE'],
    [{ token: 1 }, 'TOKEN_MALFORMED'],
    [null, 'TOKEN_MALFORMED'],
  ])('%.20s… in place of a token', async (token, code) => {
    expectRefused(await read({ 'ambit/context': { token } }), code, /token/);
  });

  test('a huge token with a good signature is refused before it is decoded', async () => {
    const claims = { ...claimsFor(), padding: 'x'.repeat(5_000_000) };
    expectRefused(await read({ 'ambit/context': { token: await signer.sign(claims) } }), 'TOKEN_TOO_LARGE', /longer/);
  });

  test.each([['a string'], [[]], [7], [null]])('%j where the context should be', async (context) => {
    expectRefused(await read({ 'ambit/context': context }), 'CONTEXT_MALFORMED', /not an object/);
  });

  test('the plain object alone counts for nothing', async () => {
    const { token: _, ...plain } = metaWith('', claimsFor())['ambit/context'];
    expectRefused(await read({ 'ambit/context': plain }), 'TOKEN_MISSING', /anyone may have written it/);
  });

  test('what is signed overrules what stands beside it, and says so', async () => {
    const claims = claimsFor({ trust: 'sandboxed' });
    const forged = {
      trustLevel: 'direct',
      userId: 'root',
      workspaceId: 'prod',
      permissions: ['*'],
      sessionId: 'other',
    };
    const context = await read(metaWith(await signer.sign(claims), claims, forged));
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

describe('a signature that is none', () => {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

  test('alg: none', async () => {
    for (const alg of ['none', 'None', 'NONE']) {
      const token = `${encoded({ alg, typ: 'txntoken+jwt', kid: signer.kid })}.${encoded(claimsFor())}.`;
      expectRefused(await read({ 'ambit/context': { token } }), 'TOKEN_ALGORITHM', /only Ed25519/);
    }
  });

  test('HS256 with the public key as its secret', async () => {
    const input = `${encoded({ alg: 'HS256', typ: 'txntoken+jwt', kid: signer.kid })}.${encoded(claimsFor())}`;
    for (const secret of [
      signer.publicJwk.x,
      Buffer.from(signer.publicJwk.x, 'base64url'),
      JSON.stringify(signer.publicJwk),
    ]) {
      const token = `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
      expectRefused(await read({ 'ambit/context': { token } }), 'TOKEN_ALGORITHM', /HS256/);
    }
  });

  test('another key, under its own name and under ours', async () => {
    const claims = claimsFor();
    expectRefused(await read(metaWith(await stranger.sign(claims), claims)), 'KEY_UNKNOWN', /not among the keys/);
    const disguised = await stranger.sign(claims, { kid: signer.kid });
    expectRefused(await read(metaWith(disguised, claims)), 'SIGNATURE_INVALID', /someone else/);
  });

  test('a key or its address brought along in the header is not looked at', async () => {
    const claims = claimsFor();
    const { kid: _, ...jwk } = stranger.publicJwk;
    for (const kid of [signer.kid, stranger.kid, undefined]) {
      const token = await stranger.sign(claims, { jwk, jku: 'http://127.0.0.1:1/jwks', kid });
      expectRefused(
        await read(metaWith(token, claims)),
        kid === signer.kid ? 'SIGNATURE_INVALID' : 'KEY_UNKNOWN',
        /signed by someone else|not among the keys/,
      );
    }
  });

  test.each(['JWT', 'at+jwt', 'TXNTOKEN+JWT', undefined])('typ %s', async (typ) => {
    expectRefused(await presented(claimsFor(), { typ }), 'TOKEN_TYPE', /not "txntoken\+jwt"/);
  });
});

describe('a good token in the wrong place', () => {
  test('P12: at another upstream', async () => {
    const options = { audience: 'ambit:server:files' };
    expectRefused(await presented(claimsFor(), {}, options), 'AUDIENCE_MISMATCH', /ambit:server:notes/);
    const env = { ...spawned(), AMBIT_AUDIENCE: 'ambit:server:files' };
    expectRefused(await presented(claimsFor(), {}, { env }), 'AUDIENCE_MISMATCH', /not for this server/);
    expect(await presented(claimsFor({ aud: 'ambit:server:files' }), {}, { env })).toMatchObject({
      status: 'verified',
    });
  });

  test('over stdio a token for an HTTP server', async () => {
    const claims = claimsFor({ aud: 'https://notes.example/mcp' });
    expectRefused(await presented(claims), 'AUDIENCE_MISMATCH', /https:\/\/notes\.example\/mcp/);
  });

  test('P12: with another tool, method or arguments', async () => {
    const claims = claimsFor({ canonical: '{"id":1}' });
    const meta = metaWith(await signer.sign(claims), claims);
    const good = { ...call, arguments: { id: 1 } };
    expectRefused(await read(meta, {}, { ...good, name: 'read_note' }), 'NAME_MISMATCH', /delete_note.*read_note/);
    expectRefused(await read(meta, {}, { ...good, method: 'prompts/get' }), 'METHOD_MISMATCH', /prompts\/get/);
    for (const other of [
      { id: 2 },
      { id: '1' },
      {},
      { id: 1, force: true },
      undefined,
      [],
      'x',
      { id: 1, to: '\ud800' },
    ]) {
      expectRefused(await read(meta, {}, { ...good, arguments: other }), 'ARGUMENTS_MISMATCH', /other arguments/);
    }
    const deep = JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`);
    expectRefused(await read(meta, {}, { ...good, arguments: { deep } }), 'ARGUMENTS_MISMATCH', /other arguments/);
    expect(await read(meta, {}, good)).toMatchObject({ status: 'verified' });
  });

  test('where nobody says which call it is', async () => {
    expectRefused(
      await read(metaWith(await signer.sign(claimsFor()), claimsFor()), {}, {}),
      'CALL_UNKNOWN',
      /secureServer/,
    );
    const { name: _, ...tctx } = claimsFor().tctx;
    const claims = { ...claimsFor(), tctx };
    expectRefused(await presented(claims as TestClaims), 'NAME_MISMATCH', /delete_note/);
  });

  test('P12: a second time', async () => {
    const claims = claimsFor();
    const meta = metaWith(await signer.sign(claims), claims);
    expect(await read(meta)).toMatchObject({ status: 'verified' });
    expectRefused(await read(meta), 'TOKEN_REPLAYED', /used before/);
    expectRefused(await read(structuredClone(meta)), 'TOKEN_REPLAYED', /used before/);
    const sameIdAgain = { ...claimsFor(), jti: claims.jti };
    expectRefused(await presented(sameIdAgain), 'TOKEN_REPLAYED', /one call/);
  });

  test('two at the same instant: one of them', async () => {
    const claims = claimsFor();
    const token = await signer.sign(claims);
    const answers = await Promise.all(Array.from({ length: 20 }, () => read(metaWith(token, claims))));
    expect(answers.filter(({ status }) => status === 'verified')).toHaveLength(1);
  });

  test('a refused use does not use it up', async () => {
    const claims = claimsFor();
    const meta = metaWith(await signer.sign(claims), claims);
    expectRefused(await read(meta, {}, { ...call, name: 'other' }), 'NAME_MISMATCH', /other/);
    expect(await read(meta)).toMatchObject({ status: 'verified' });
  });
});

describe('time', () => {
  const at = Date.UTC(2026, 0, 1);
  const seen = async (claims: TestClaims, seconds: number) =>
    presented(claims, {}, { now: () => at + seconds * 1000, replays: createReplayMemory() });

  test('P12: after expiry, with a little patience for clocks', async () => {
    expect(await seen(claimsFor({ now: at }), 64)).toMatchObject({ status: 'verified' });
    expectRefused(await seen(claimsFor({ now: at }), 65), 'TOKEN_EXPIRED', /has expired/);
    expectRefused(await seen(claimsFor({ now: at }), 86_400), 'TOKEN_EXPIRED', /has expired/);
  });

  test('before it was made', async () => {
    expect(await seen(claimsFor({ now: at }), -5)).toMatchObject({ status: 'verified' });
    expectRefused(await seen(claimsFor({ now: at }), -6), 'TOKEN_NOT_YET_VALID', /clocks/);
  });

  test.each([61, 3600, 0, -1, 1e9])('a life of %d seconds', async (life) => {
    const claims = claimsFor({ now: at });
    expectRefused(await seen({ ...claims, exp: claims.iat + life }, 0), 'TOKEN_LIFETIME', /at most 60/);
  });

  test('the memory of used tokens forgets only what has expired, and refuses when it is full', () => {
    const memory = createReplayMemory(2);
    expect(memory.remember('a', 100, 0)).toBe('new');
    expect(memory.remember('b', 200, 0)).toBe('new');
    expect(memory.remember('c', 200, 99)).toBe('full');
    expect(memory.remember('a', 100, 99)).toBe('seen');
    expect(memory.remember('c', 200, 100)).toBe('new');
    expect(memory.remember('b', 200, 100)).toBe('seen');
  });

  test('a full memory refuses the call', async () => {
    expectRefused(
      await presented(claimsFor(), {}, { replays: createReplayMemory(0) }),
      'REPLAY_MEMORY_FULL',
      /try again/,
    );
  });
});

describe('claims of the wrong kind, well signed', () => {
  const wrong: [string, (claims: TestClaims) => object][] = [
    ...['iss', 'aud', 'iat', 'exp', 'txn', 'jti', 'req_wl', 'sub', 'scope', 'tctx'].flatMap(
      (name): [string, (claims: TestClaims) => object][] => [
        [`no ${name}`, (claims) => ({ ...claims, [name]: undefined })],
        [`${name} a list`, (claims) => ({ ...claims, [name]: [(claims as Record<string, unknown>)[name]] })],
      ],
    ),
    ['act a string', (claims) => ({ ...claims, act: 'coder' })],
    ...['root', 'Direct', 'trusted', '', null, ['direct']].map(
      (trustLevel): [string, (claims: TestClaims) => object] => [
        `trust level ${JSON.stringify(trustLevel)}`,
        (claims) => ({ ...claims, tctx: { ...claims.tctx, trustLevel } }),
      ],
    ),
    ...['notes:write', { 0: 'notes:write' }, [1]].map((permissions): [string, (claims: TestClaims) => object] => [
      `permissions ${JSON.stringify(permissions)}`,
      (claims) => ({ ...claims, tctx: { ...claims.tctx, permissions } }),
    ]),
  ];

  test.each(wrong)('%s', async (_, change) => {
    const token = await signer.sign(change(claimsFor()));
    expectRefused(await read({ 'ambit/context': { token } }), 'CLAIMS_INVALID', /claim/);
  });

  test('another issuer than the one expected', async () => {
    const options = { issuer: 'https://gateway.example' };
    expectRefused(await presented(claimsFor(), {}, options), 'ISSUER_MISMATCH', /gateway/);
  });
});

describe('over HTTP', () => {
  const aud = 'https://notes.example/mcp';

  test('P12: the header is read where there is no _meta, in any spelling of its name', async () => {
    for (const spell of ['txn-token', 'Txn-Token', 'TXN-TOKEN']) {
      const token = await signer.sign(claimsFor({ aud }));
      for (const headers of [{ [spell]: token }, { [spell]: [token] }, new Headers({ [spell]: token })]) {
        const options = { audience: aud, replays: createReplayMemory() };
        expect(await read(undefined, options, { ...call, headers })).toMatchObject({
          status: 'verified',
          userId: 'ada',
        });
      }
    }
  });

  test('a server has to know who it is', async () => {
    const headers = { 'txn-token': await signer.sign(claimsFor({ aud })) };
    expectRefused(await read(undefined, {}, { ...call, headers }), 'AUDIENCE_UNKNOWN', /"audience"/);
    expect(await read(undefined, { audience: ['https://other.example', aud] }, { ...call, headers })).toMatchObject({
      status: 'verified',
    });
  });

  test('an address is one address in either spelling', async () => {
    const headers = { 'txn-token': await signer.sign(claimsFor({ aud: 'https://notes.example/' })) };
    expect(await read(undefined, { audience: 'https://NOTES.example:443' }, { ...call, headers })).toMatchObject({
      status: 'verified',
    });
  });

  test('the environment is not the caller’s', async () => {
    expectRefused(await read(undefined, { audience: aud }, { ...call, headers: {} }), 'NO_CONTEXT', /not come through/);
    expectRefused(await read({}, { transport: 'http' }, call), 'NO_CONTEXT', /not come through/);
  });

  test('a path beside the token is not taken', async () => {
    const claims = claimsFor({ aud });
    const meta = metaWith(await signer.sign(claims), claims);
    expect(await read(meta, { audience: aud }, { ...call, headers: {} })).toMatchObject({
      status: 'verified',
      workspacePath: undefined,
    });
  });

  test('_meta comes first: a bad one is not made good by the header', async () => {
    const headers = { 'txn-token': await signer.sign(claimsFor({ aud })) };
    const meta = { 'ambit/context': { token: 'x.y.z' } };
    expectRefused(await read(meta, { audience: aud }, { ...call, headers }), 'TOKEN_MALFORMED', /JWS/);
  });

  test('the header twice', async () => {
    const token = await signer.sign(claimsFor({ aud }));
    for (const headers of [{ 'txn-token': [token, token] }, { 'txn-token': token, 'Txn-Token': token }]) {
      expectRefused(
        await read(undefined, { audience: aud }, { ...call, headers }),
        'TOKEN_MALFORMED',
        /more than once/,
      );
    }
  });
});
