import { createHmac, createPublicKey, sign } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { createContextKey } from '../../../src/context/for-tools/context-key.ts';
import { createReplayMemory } from '../../../src/public/sdk/index.ts';
import { call, readMeta, signer } from './read-signed.ts';
import { createClaims } from './signer.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-context-key-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => vi.useRealTimers());

let files = 0;
function writeKey(content: string, mode = 0o600): string {
  const path = join(folder, `key-${++files}.json`);
  writeFileSync(path, content, { mode });
  chmodSync(path, mode);
  return path;
}

const key = createContextKey();
const other = createContextKey();
const keyFile = writeKey(key.jwk);
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function createToken(header: object, mac: (text: string) => string): string {
  const text = `${encode({ typ: 'txntoken+jwt', ...header })}.${encode(createClaims())}`;
  return `${text}.${mac(text)}`;
}

const hmac = (secret: string | Buffer) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url');
const createOwnToken = (by = key) => createToken({ alg: 'HS256', kid: by.kid }, by.sign);

interface Reading {
  readonly file?: string;
  readonly jwks?: object;
  readonly transport?: 'stdio' | 'http';
}

/** Reads a token as a process that Ambit has started does: both kinds of keys are in its environment. */
async function readToken(token: string, { file = keyFile, jwks = signer.jwks, transport = 'stdio' }: Reading = {}) {
  const env = { AMBIT_CONTEXT_KEY_FILE: file, AMBIT_JWKS: JSON.stringify(jwks), AMBIT_TRUST_LEVEL: 'direct' };
  const options = { env, replays: createReplayMemory(), audience: 'ambit:server:notes' };
  const { status, code } = await readMeta({ 'ambit/context': { token } }, options, { ...call, transport });
  return code ?? status;
}

const signPublicly = (text: string) => sign(null, Buffer.from(text), signer.privateKey).toString('base64url');

describe('a process with a key of its own', () => {
  test('P12: verifies tokens of both kinds, and its own also without public keys', async () => {
    expect(await readToken(createOwnToken())).toBe('verified');
    expect(await readToken(createToken({ alg: 'EdDSA', kid: signer.kid }, signPublicly))).toBe('verified');
    expect(await readToken(createOwnToken(), { jwks: { keys: [] } })).toBe('verified');
  });

  test('P12: refuses a token of another process of the same server', async () => {
    expect(await readToken(createOwnToken(other))).toBe('KEY_UNKNOWN');
    expect(await readToken(createToken({ alg: 'HS256', kid: key.kid }, other.sign))).toBe('SIGNATURE_INVALID');
  });

  test('P12: refuses its own token over HTTP, where Ambit never sends one', async () => {
    expect(await readToken(createOwnToken(), { transport: 'http' })).toBe('KEY_UNKNOWN');
  });

  test('refuses a token that was changed', async () => {
    const [header, , signature] = createOwnToken().split('.');
    expect(await readToken(`${header}.${encode({ ...createClaims(), sub: 'root' })}.${signature}`)).toBe(
      'SIGNATURE_INVALID',
    );
    expect(await readToken(createOwnToken().slice(0, -1))).toBe('SIGNATURE_INVALID');
    expect(await readToken(createOwnToken().replace(/\.[^.]*$/, '.'))).toBe('SIGNATURE_INVALID');
    expect(await readToken(`${createOwnToken()}.x`)).toBe('TOKEN_MALFORMED');
    expect(await readToken(createToken({ alg: 'HS256', kid: key.kid, crit: ['b64'] }, key.sign))).toBe(
      'TOKEN_MALFORMED',
    );
  });
});

describe('P12: the algorithm belongs to the key', () => {
  const publicKey = createPublicKey(signer.privateKey);
  const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
  const secrets = {
    bytes: Buffer.from(signer.publicJwk.x, 'base64url'),
    text: signer.publicJwk.x,
    PEM: pem,
    DER: publicKey.export({ type: 'spki', format: 'der' }),
    JWK: JSON.stringify(signer.publicJwk),
    'the whole set': JSON.stringify(signer.jwks),
    nothing: '',
  };

  test.each(Object.entries(secrets))('HS256 with the public key as its secret: %s', async (_, secret) => {
    expect(await readToken(createToken({ alg: 'HS256', kid: signer.kid }, hmac(secret)))).toBe('TOKEN_ALGORITHM');
    expect(await readToken(createToken({ alg: 'HS256', kid: key.kid }, hmac(secret)))).toBe('SIGNATURE_INVALID');
    expect(await readToken(createToken({ alg: 'HS256' }, hmac(secret)))).toBe('TOKEN_ALGORITHM');
  });

  test.each(['EdDSA', 'Ed25519', 'none', 'None', 'HS384', 'HS512', 'RS256', ['HS256'], undefined])(
    '%s with the kid of the process',
    async (alg) => {
      for (const mac of [key.sign, signPublicly, () => '']) {
        expect(await readToken(createToken({ alg, kid: key.kid }, mac))).toBe('TOKEN_ALGORITHM');
      }
    },
  );

  test('an octet key in a key set is used for nothing', async () => {
    const octet = JSON.parse(other.jwk) as object;
    for (const jwks of [
      { keys: [octet] },
      { keys: [octet, ...signer.jwks.keys] },
      { keys: [{ ...octet, kid: signer.kid }, ...signer.jwks.keys] },
    ]) {
      for (const kid of [other.kid, signer.kid, undefined]) {
        const refused = kid === other.kid ? 'KEY_UNKNOWN' : 'TOKEN_ALGORITHM';
        expect(await readToken(createToken({ alg: 'HS256', kid }, other.sign), { jwks })).toBe(refused);
        expect(await readToken(createToken({ alg: 'EdDSA', kid }, other.sign), { jwks })).not.toBe('verified');
      }
    }
  });

  test('an Ed25519 key in a key set is not used under the kid of a process', async () => {
    const jwks = { keys: [{ ...signer.publicJwk, kid: key.kid }] };
    expect(await readToken(createToken({ alg: 'EdDSA', kid: key.kid }, signPublicly), { jwks })).toBe(
      'TOKEN_ALGORITHM',
    );
  });
});

describe('P12: a key file that cannot be trusted is refused', () => {
  const jwk = JSON.parse(key.jwk) as object;
  const linked = join(folder, 'linked.json');
  symlinkSync(keyFile, linked);
  const directory = join(folder, 'directory');
  mkdirSync(directory, { mode: 0o700 });

  test.each([
    ['a symbolic link', linked],
    ['readable by everybody', writeKey(key.jwk, 0o644)],
    ['readable by the group', writeKey(key.jwk, 0o640)],
    ['a folder', directory],
    ['missing', join(folder, 'missing.json')],
    ['a relative path that does not exist', 'context-key.json'],
    ['a public key', writeKey(JSON.stringify({ ...signer.publicJwk, kid: key.kid }))],
    ['too large', writeKey(key.jwk + ' '.repeat(5000))],
    ['not JSON', writeKey('secret')],
    ['a short secret', writeKey(JSON.stringify({ ...jwk, k: 'AAAA' }))],
    ['for another algorithm', writeKey(JSON.stringify({ ...jwk, alg: 'HS512' }))],
    ['with the kid of a public key', writeKey(JSON.stringify({ ...jwk, kid: signer.kid }))],
  ])('%s', async (_, file) => {
    expect(await readToken(createOwnToken(), { file })).toBe('KEYS_UNUSABLE');
    expect(await readToken(createToken({ alg: 'EdDSA', kid: signer.kid }, signPublicly), { file })).toBe('verified');
  });
});

test('the key file is read once, and again at most once a second for an unknown kid', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const file = writeKey(key.jwk);
  expect(await readToken(createOwnToken(), { file })).toBe('verified');
  rmSync(file);
  expect(await readToken(createOwnToken(), { file })).toBe('verified');
  writeFileSync(file, other.jwk, { mode: 0o600 });
  expect(await readToken(createOwnToken(other), { file })).toBe('KEY_UNKNOWN');
  vi.advanceTimersByTime(1_001);
  expect(await readToken(createOwnToken(other), { file })).toBe('verified');
});
