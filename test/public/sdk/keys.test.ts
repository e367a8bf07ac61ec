import { mkdtemp, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type ReadOptions, readContext } from '../../../src/public/sdk/index.ts';
import { createClaims, createMeta, createSigner, type Signer } from './signer.ts';

let folder: string;
let old: Signer;
let next: Signer;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-keys-'));
  old = await createSigner();
  next = await createSigner();
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(() => vi.useRealTimers());

async function calledBy(signer: Signer, options: ReadOptions) {
  const claims = createClaims();
  const source = { meta: createMeta(await signer.sign(claims), claims), name: 'delete_note' };
  const { status, code } = await readContext(source, { env: {}, ...options });
  return code ?? status;
}

const from = (AMBIT_JWKS: string) => ({ env: { AMBIT_JWKS } });

/** Only the clock that counts the time between two reads stands still; nothing here waits. */
const stopClock = () => vi.useFakeTimers({ toFake: ['performance'] });

async function replace(path: string, jwks: object) {
  await writeFile(`${path}.new`, JSON.stringify(jwks));
  await rename(`${path}.new`, path);
}

test('without keys nothing is verified, and the environment is not used instead', async () => {
  expect(await calledBy(old, { env: { AMBIT_SESSION_ID: 'here', AMBIT_TRUST_LEVEL: 'direct' } })).toBe('KEYS_MISSING');
  expect(await calledBy(old, from(''))).toBe('KEYS_MISSING');
});

test('keys are read as text and as an object, and an invalid key set is refused', async () => {
  expect(await calledBy(old, from(JSON.stringify(old.jwks)))).toBe('verified');
  expect(await calledBy(old, { keys: old.jwks })).toBe('verified');
  expect(await calledBy(next, { keys: old.jwks, env: { AMBIT_JWKS: JSON.stringify(next.jwks) } })).toBe('KEY_UNKNOWN');
  for (const text of ['nonsense', '[]', '{}', '{"keys":[]}', '{"keys":"x"}', 'null', 'https://[', 'file:relative']) {
    expect(await calledBy(old, from(text)), text).toBe('KEYS_UNUSABLE');
  }
});

test('a key without a name is known by its thumbprint; keys of other kinds are passed over', async () => {
  const { kid: _, ...nameless } = old.publicJwk;
  const others = [null, 'x', { kty: 'oct', k: 'AAAA', kid: old.kid }, { kty: 'EC', crv: 'P-256', kid: old.kid }];
  expect(await calledBy(old, { keys: { keys: [...others, nameless] as object[] } })).toBe('verified');
  expect(await calledBy(old, { keys: { keys: [{ ...old.publicJwk, use: 'enc' }] } })).toBe('KEYS_UNUSABLE');
  expect(await calledBy(old, { keys: { keys: [{ ...old.publicJwk, x: 'short' }] } })).toBe('KEYS_UNUSABLE');
});

test('P12: a rotated key is learned from the file, which is read at most once a second', async () => {
  stopClock();
  const path = join(folder, 'rotating.json');
  await replace(path, old.jwks);
  expect(await calledBy(old, from(path))).toBe('verified');
  await replace(path, { keys: [...old.jwks.keys, ...next.jwks.keys] });
  expect(await calledBy(next, from(path))).toBe('KEY_UNKNOWN');
  vi.advanceTimersByTime(1_001);
  expect(await calledBy(next, from(path))).toBe('verified');
  expect(await calledBy(old, from(path))).toBe('verified');
});

test('a key that was withdrawn is gone after a minute, though nobody used a new one', async () => {
  stopClock();
  const path = join(folder, 'withdrawn.json');
  await replace(path, old.jwks);
  expect(await calledBy(old, from(pathToFileURL(path).href))).toBe('verified');
  await replace(path, next.jwks);
  vi.advanceTimersByTime(60_001);
  expect(await calledBy(old, from(pathToFileURL(path).href))).toBe('KEY_UNKNOWN');
});

test('known keys stay valid while their file is missing', async () => {
  stopClock();
  const path = join(folder, 'away.json');
  expect(await calledBy(old, from(path))).toBe('KEYS_UNUSABLE');
  await replace(path, old.jwks);
  vi.advanceTimersByTime(1_001);
  expect(await calledBy(old, from(path))).toBe('verified');
  await unlink(path);
  vi.advanceTimersByTime(60_001);
  expect(await calledBy(old, from(path))).toBe('verified');
  expect(await calledBy(next, from(path))).toBe('KEY_UNKNOWN');
});

test('keys from an address: forged names do not make it ask again and again', async () => {
  let asked = 0;
  let jwks: object = old.jwks;
  const server = createServer((_, response) => {
    asked += 1;
    response.setHeader('content-type', 'application/json').end(JSON.stringify(jwks));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    stopClock();
    const { port } = server.address() as { port: number };
    const jwksUri = `http://127.0.0.1:${port}/.well-known/jwks.json`;
    expect(await Promise.all([1, 2, 3].map(() => calledBy(old, { jwksUri })))).toEqual(Array(3).fill('verified'));
    expect(asked).toBe(1);
    jwks = next.jwks;
    for (let i = 0; i < 20; i += 1) expect(await calledBy(next, { jwksUri })).toBe('KEY_UNKNOWN');
    expect(asked).toBe(1);
    vi.advanceTimersByTime(15_001);
    expect(await calledBy(next, { jwksUri })).toBe('verified');
    expect(asked).toBe(2);
  } finally {
    server.close();
  }
});

test('an address that does not answer gives the reason', async () => {
  expect(await calledBy(old, { jwksUri: 'http://127.0.0.1:1/jwks.json' })).toBe('KEYS_UNUSABLE');
});
