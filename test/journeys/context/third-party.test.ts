import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createRemoteJWKSet, decodeProtectedHeader, errors, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { type RecordedGateway, startRecordedGateway } from '../forgery/start-recorded-gateway.ts';
import { callModern, readToolText } from '../raw-mcp-client.ts';

let attacked: RecordedGateway;
let session: { readonly id: string; readonly token: string };
let keys: ReturnType<typeof createRemoteJWKSet>;

beforeAll(async () => {
  attacked = await startRecordedGateway((url) => ({
    servers: { told: { ...stdioRecorder, signature: 'public' }, remote: { url: `${url}/remote`, context: 'full' } },
  }));
  session = await attacked.open({ userId: 'ada', agentId: 'coder' });
  keys = createRemoteJWKSet(new URL('/.well-known/jwks.json', attacked.ambit.url));
});

afterAll(() => attacked?.stop());

async function tokenOf(server: string, args = '{}'): Promise<string> {
  const raw = await readToolText(callModern(attacked.ambit.mcp(server), session.token, 'echo', args));
  const { _meta } = (JSON.parse(raw) as { params: { _meta: { 'ambit/context': { token: string } } } }).params;
  return _meta['ambit/context'].token;
}

const rules = { typ: 'txntoken+jwt', algorithms: ['EdDSA', 'Ed25519'], maxTokenAge: 60 };
describe('P12: with nothing but jose and the address of the keys', () => {
  test('a token of a running gateway is accepted, and says all that was promised', async () => {
    const token = await tokenOf('told', '{"b":[1,"é"],"a":1.50}');
    const { payload } = await jwtVerify(token, keys, { ...rules, audience: 'ambit:server:told' });
    const { kid, alg } = decodeProtectedHeader(token);
    expect(alg).toBe('EdDSA');
    const { keys: listed } = (await (await fetch(`${attacked.ambit.url}/.well-known/jwks.json`)).json()) as {
      keys: Record<string, string>[];
    };
    expect(listed).toEqual([{ kty: 'OKP', crv: 'Ed25519', x: expect.any(String), kid, use: 'sig', alg: 'EdDSA' }]);
    const thumbprint = createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${listed[0]?.x}"}`);
    expect(kid).toBe(thumbprint.digest('base64url'));
    expect(payload).toEqual({
      iss: expect.stringMatching(/^ambit:gateway:[0-9a-f]{16}$/),
      aud: 'ambit:server:told',
      iat: expect.any(Number),
      exp: (payload.iat as number) + 60,
      txn: payload.txn,
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
      req_wl: expect.stringMatching(/^ambit:/),
      sub: 'ada',
      act: { sub: 'coder' },
      scope: 'tool:echo',
      tctx: {
        sessionId: session.id,
        correlationId: payload.txn,
        workspaceId: null,
        trustLevel: 'direct',
        permissions: [],
        method: 'tools/call',
        name: 'echo',
        argsSha256: createHash('sha256').update('{"a":1.5,"b":[1,"é"]}').digest('hex'),
      },
    });
  });

  test('arguments that RFC 8785 cannot hold are said to be unbound', async () => {
    const { payload } = await jwtVerify(await tokenOf('told', '{"a":9007199254740993}'), keys, rules);
    expect(payload.tctx).toMatchObject({ argsRaw: true });
    expect(payload.tctx).not.toHaveProperty('argsSha256');
  });

  test('a token for one server is refused by every other', async () => {
    const [stdio, http] = [await tokenOf('told'), await tokenOf('remote')];
    const { aud } = (await jwtVerify(http, keys, rules)).payload;
    expect(aud).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp\/remote$/);
    await jwtVerify(http, keys, { ...rules, audience: aud as string });
    for (const [token, audience] of [
      [stdio, aud as string],
      [stdio, 'ambit:server:pipe'],
      [http, 'ambit:server:told'],
      [http, `${aud as string}/`],
    ] as const) {
      await expect(jwtVerify(token, keys, { ...rules, audience })).rejects.toBeInstanceOf(
        errors.JWTClaimValidationFailed,
      );
    }
  });

  test('nothing of it can be changed', async () => {
    const token = await tokenOf('told');
    const [header = '', payload = '', signature = ''] = token.split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
    const packed = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const claim of Object.keys(claims)) {
      const changed = packed({ ...claims, [claim]: 'other' });
      await expect(jwtVerify(`${header}.${changed}.${signature}`, keys, rules)).rejects.toBeInstanceOf(
        errors.JWSSignatureVerificationFailed,
      );
    }
    await expect(jwtVerify(`${packed({ alg: 'none', typ: rules.typ })}.${payload}.`, keys, rules)).rejects.toThrow();
  });
});

test('P12: only its owner can read the key of a running gateway', () => {
  const folder = join(attacked.ambit.dataDir, 'keys');
  expect(statSync(join(folder, 'signing.json')).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
});
