import { describe, expect, test } from 'vitest';
import { createReplayMemory, readContext } from '../../../src/public/sdk/index.ts';
import { call, expectRefused, readMeta, readSigned, signer, startEnvironment } from './read-signed.ts';
import { createClaims, createMeta, type TestClaims } from './signer.ts';

describe('a valid token in the wrong place', () => {
  test('P12: at another upstream', async () => {
    const options = { audience: 'ambit:server:files' };
    expectRefused(await readSigned(createClaims(), {}, options), 'AUDIENCE_MISMATCH', /ambit:server:notes/);
    const env = { ...startEnvironment, AMBIT_AUDIENCE: 'ambit:server:files' };
    expectRefused(await readSigned(createClaims(), {}, { env }), 'AUDIENCE_MISMATCH', /not for this server/);
    expect(await readSigned(createClaims({ aud: 'ambit:server:files' }), {}, { env })).toMatchObject({
      status: 'verified',
    });
  });

  test('over stdio a token for an HTTP server', async () => {
    const claims = createClaims({ aud: 'https://notes.example/mcp' });
    expectRefused(await readSigned(claims), 'AUDIENCE_MISMATCH', /https:\/\/notes\.example\/mcp/);
  });

  test('P12: with another tool, method or arguments', async () => {
    const claims = createClaims({ canonical: '{"id":1}' });
    const meta = createMeta(await signer.sign(claims), claims);
    const good = { ...call, arguments: { id: 1 } };
    expectRefused(await readMeta(meta, {}, { ...good, name: 'read_note' }), 'NAME_MISMATCH', /delete_note.*read_note/);
    expectRefused(await readMeta(meta, {}, { ...good, method: 'prompts/get' }), 'METHOD_MISMATCH', /prompts\/get/);
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
      expectRefused(await readMeta(meta, {}, { ...good, arguments: other }), 'ARGUMENTS_MISMATCH', /other arguments/);
    }
    const deep = JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`);
    expectRefused(await readMeta(meta, {}, { ...good, arguments: { deep } }), 'ARGUMENTS_MISMATCH', /other arguments/);
    expect(await readMeta(meta, {}, good)).toMatchObject({ status: 'verified' });
  });

  test('a token that says nothing about the arguments is for no tool', async () => {
    const { argsSha256: _, ...tctx } = createClaims().tctx;
    for (const argsRaw of [undefined, false, 'true', 1]) {
      const token = await signer.sign({ ...createClaims(), tctx: { ...tctx, argsRaw } });
      expectRefused(await readMeta({ 'ambit/context': { token } }), 'ARGUMENTS_MISMATCH', /other arguments/);
    }
  });

  test('a call that is not described is refused', async () => {
    expectRefused(
      await readMeta(createMeta(await signer.sign(createClaims()), createClaims()), {}, {}),
      'CALL_UNKNOWN',
      /secureServer/,
    );
    const { name: _, ...tctx } = createClaims().tctx;
    const claims = { ...createClaims(), tctx };
    expectRefused(await readSigned(claims as TestClaims), 'NAME_MISMATCH', /delete_note/);
  });

  test('P12: a second use is refused', async () => {
    const claims = createClaims();
    const meta = createMeta(await signer.sign(claims), claims);
    expect(await readMeta(meta)).toMatchObject({ status: 'verified' });
    expectRefused(await readMeta(meta), 'TOKEN_REPLAYED', /already been used/);
    expectRefused(await readMeta(structuredClone(meta)), 'TOKEN_REPLAYED', /already been used/);
    const sameIdAgain = { ...createClaims(), jti: claims.jti };
    expectRefused(await readSigned(sameIdAgain), 'TOKEN_REPLAYED', /one call/);
  });

  test('one message may be looked at twice, but the same object in another message is a replay', async () => {
    const claims = createClaims();
    const _meta = createMeta(await signer.sign(claims), claims);
    const { signal } = new AbortController();
    const look = (requestId: string | number) =>
      readContext({ signal, requestId, _meta }, { env: startEnvironment, name: 'delete_note' });
    expect(await look(1)).toMatchObject({ status: 'verified' });
    expect(await look(1)).toMatchObject({ status: 'verified' });
    expectRefused(await look(2), 'TOKEN_REPLAYED', /already been used/);
    expectRefused(await look('1'), 'TOKEN_REPLAYED', /already been used/);
  });

  test('of two concurrent uses, one is accepted', async () => {
    const claims = createClaims();
    const token = await signer.sign(claims);
    const answers = await Promise.all(Array.from({ length: 20 }, () => readMeta(createMeta(token, claims))));
    expect(answers.filter(({ status }) => status === 'verified')).toHaveLength(1);
  });

  test('a refused use does not use it up', async () => {
    const claims = createClaims();
    const meta = createMeta(await signer.sign(claims), claims);
    expectRefused(await readMeta(meta, {}, { ...call, name: 'other' }), 'NAME_MISMATCH', /other/);
    expect(await readMeta(meta)).toMatchObject({ status: 'verified' });
  });
});

describe('time', () => {
  const at = Date.UTC(2026, 0, 1);
  const seen = async (claims: TestClaims, seconds: number) =>
    readSigned(claims, {}, { now: () => at + seconds * 1000, replays: createReplayMemory() });

  test('P12: an expired token is refused, with a tolerance for clocks', async () => {
    expect(await seen(createClaims({ now: at }), 64)).toMatchObject({ status: 'verified' });
    expectRefused(await seen(createClaims({ now: at }), 65), 'TOKEN_EXPIRED', /has expired/);
    expectRefused(await seen(createClaims({ now: at }), 86_400), 'TOKEN_EXPIRED', /has expired/);
  });

  test('a token from the future is refused', async () => {
    expect(await seen(createClaims({ now: at }), -5)).toMatchObject({ status: 'verified' });
    expectRefused(await seen(createClaims({ now: at }), -6), 'TOKEN_NOT_YET_VALID', /clocks/);
  });

  test.each([61, 3600, 0, -1, 1e9])('a lifetime of %d seconds is refused', async (life) => {
    const claims = createClaims({ now: at });
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

  test('a memory that is full, fails or answers nonsense refuses the call', async () => {
    const failing = { remember: () => Promise.reject(new Error('redis://secret@store is away')) };
    const senseless = { remember: () => true as never };
    for (const replays of [createReplayMemory(0), failing, senseless]) {
      const context = await readSigned(createClaims(), {}, { replays });
      expectRefused(context, 'REPLAYS_UNKNOWN', /Try again/);
      expect(context.reason).not.toContain('secret');
    }
  });

  test('an invalid clock verifies nothing', async () => {
    expectRefused(await readSigned(createClaims(), {}, { now: () => Number.NaN }), 'TOKEN_NOT_YET_VALID', /clocks/);
    const options = { clockSkewSeconds: Number.NaN };
    expectRefused(await readSigned(createClaims(), {}, options), 'TOKEN_NOT_YET_VALID', /clocks/);
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
    const token = await signer.sign(change(createClaims()));
    expectRefused(await readMeta({ 'ambit/context': { token } }), 'CLAIMS_INVALID', /claim/);
  });

  test('another issuer than the one expected', async () => {
    const options = { issuer: 'https://gateway.example' };
    expectRefused(await readSigned(createClaims(), {}, options), 'ISSUER_MISMATCH', /gateway/);
  });
});

describe('over HTTP', () => {
  const aud = 'https://notes.example/mcp';

  test('P12: the header is read where there is no _meta, in any spelling of its name', async () => {
    for (const spell of ['txn-token', 'Txn-Token', 'TXN-TOKEN']) {
      const token = await signer.sign(createClaims({ aud }));
      for (const headers of [{ [spell]: token }, { [spell]: [token] }, new Headers({ [spell]: token })]) {
        const options = { audience: aud, replays: createReplayMemory() };
        expect(await readMeta(undefined, options, { ...call, headers })).toMatchObject({
          status: 'verified',
          userId: 'ada',
        });
      }
    }
  });

  test('a server without an audience refuses every token', async () => {
    const headers = { 'txn-token': await signer.sign(createClaims({ aud })) };
    expectRefused(await readMeta(undefined, {}, { ...call, headers }), 'AUDIENCE_UNKNOWN', /"audience"/);
    expect(await readMeta(undefined, { audience: ['https://other.example', aud] }, { ...call, headers })).toMatchObject(
      {
        status: 'verified',
      },
    );
  });

  test('an address is one address in either spelling', async () => {
    const headers = { 'txn-token': await signer.sign(createClaims({ aud: 'https://notes.example/' })) };
    expect(await readMeta(undefined, { audience: 'https://NOTES.example:443' }, { ...call, headers })).toMatchObject({
      status: 'verified',
    });
  });

  test('the environment is not the caller’s', async () => {
    expectRefused(
      await readMeta(undefined, { audience: aud }, { ...call, headers: {} }),
      'NO_CONTEXT',
      /not come through/,
    );
    expectRefused(await readMeta({}, { transport: 'http' }, call), 'NO_CONTEXT', /not come through/);
  });

  test('a workspace path beside the token is ignored', async () => {
    const claims = createClaims({ aud });
    const meta = createMeta(await signer.sign(claims), claims);
    expect(await readMeta(meta, { audience: aud }, { ...call, headers: {} })).toMatchObject({
      status: 'verified',
      workspacePath: undefined,
    });
  });

  test('_meta comes first: a bad one is not made good by the header', async () => {
    const headers = { 'txn-token': await signer.sign(createClaims({ aud })) };
    const meta = { 'ambit/context': { token: 'x.y.z' } };
    expectRefused(await readMeta(meta, { audience: aud }, { ...call, headers }), 'TOKEN_MALFORMED', /JWS/);
  });

  test('a header that is sent twice is refused', async () => {
    const token = await signer.sign(createClaims({ aud }));
    for (const headers of [{ 'txn-token': [token, token] }, { 'txn-token': token, 'Txn-Token': token }]) {
      expectRefused(
        await readMeta(undefined, { audience: aud }, { ...call, headers }),
        'TOKEN_MALFORMED',
        /more than once/,
      );
    }
  });
});
