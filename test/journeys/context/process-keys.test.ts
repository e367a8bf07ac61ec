import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { decodeProtectedHeader } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createReplayMemory, readContext } from '../../../src/public/sdk/index.ts';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import type { RawClient } from '../../gateway/raw-client.ts';
import { createSandboxFolder } from '../sandbox/sandbox-gateway.ts';
import { waitUntilEmpty } from '../wait-until.ts';
import { findKeyFile, listKeyFiles } from './find-key-file.ts';

const { dataDir, open, use, close } = createSandboxFolder('process-keys');
const forged = '/tmp/forged.json';
const pinned = { AMBIT_CONTEXT_KEY_FILE: forged, PARACHUTE_CONTEXT_KEY_FILE: forged, KEPT: 'yes' };
let gateway: Awaited<ReturnType<typeof open>>;

beforeAll(async () => {
  const recorder = { ...stdioRecorder, env: pinned };
  gateway = await open({
    sessions: { defaultTrust: 'direct' },
    context: { envPrefixes: ['AMBIT', 'PARACHUTE'] },
    servers: {
      own: recorder,
      fresh: recorder,
      once: { ...recorder, scope: 'call' },
      old: { ...recorder, era: 'handshake' },
      wide: { ...recorder, scope: 'shared', contextAware: true },
      public: { ...recorder, signature: 'public' },
      silent: { ...recorder, context: 'none' },
    },
  });
});
afterAll(close);

const environmentOf = async (client: RawClient) =>
  JSON.parse(await client.call('environment')) as Record<string, string>;

function readToken(raw: string): string {
  const { _meta } = (JSON.parse(raw) as { params: { _meta: { 'ambit/context': { token: string } } } }).params;
  return _meta['ambit/context'].token;
}

const tokenFor = async (client: RawClient) => readToken(await client.call('echo'));
const kidOf = (token: string) => String(decodeProtectedHeader(token).kid);

async function verify(token: string, server: string, keyFile: string | undefined): Promise<string> {
  const call = { meta: { 'ambit/context': { token } }, name: 'echo', arguments: {} };
  const env = { AMBIT_CONTEXT_KEY_FILE: keyFile };
  const options = { env, keys: { keys: [] }, audience: `ambit:server:${server}`, replays: createReplayMemory() };
  const { code, status } = await readContext(call, options);
  return code ?? status;
}

test('P12: each process has a key that no other process has, and a token for one is refused by all others', async () => {
  const [ada, bob] = [await use('own', { userId: 'ada' }), await use('own', { userId: 'bob' })];
  const tokens = [await tokenFor(ada.client), await tokenFor(bob.client)] as const;
  const files = [(await environmentOf(ada.client)).AMBIT_CONTEXT_KEY_FILE, findKeyFile(dataDir, tokens[1])];
  expect(tokens.map((token) => decodeProtectedHeader(token))).toEqual(
    tokens.map(() => ({ alg: 'HS256', typ: 'txntoken+jwt', kid: expect.stringMatching(/^process-[\w-]{16}$/) })),
  );
  expect(await verify(tokens[0], 'own', files[0])).toBe('verified');
  expect(await verify(tokens[1], 'own', files[1])).toBe('verified');
  expect(await verify(tokens[0], 'own', files[1])).toBe('KEY_UNKNOWN');
  expect(await verify(tokens[0], 'other', files[0])).toBe('AUDIENCE_MISMATCH');
  for (const file of files) {
    expect(statSync(file ?? '').mode & 0o777).toBe(0o600);
    expect(statSync(dirname(file ?? '')).mode & 0o777).toBe(0o700);
  }
  const jwk = JSON.parse(readFileSync(files[0] ?? '', 'utf8')) as { k: string };
  expect(jwk).toEqual({ kty: 'oct', k: jwk.k, alg: 'HS256', kid: kidOf(tokens[0]), use: 'sig' });
  expect(Buffer.from(jwk.k, 'base64url')).toHaveLength(32);
  await gateway.endSession(ada.id);
  await waitUntilEmpty(() => files.slice(0, 1).filter((file) => existsSync(file ?? '')), 30_000);
  expect(await verify(await tokenFor(bob.client), 'own', files[1])).toBe('verified');
});

test('P12: a process that starts again has a new key, and the old file is gone', async () => {
  const { client } = await use('own', {});
  const first = await tokenFor(client);
  const file = findKeyFile(dataDir, first) as string;
  await client.call('exit');
  await waitUntilEmpty(() => [file].filter((path) => existsSync(path)), 30_000);
  const next = await tokenFor(client);
  expect(kidOf(next)).not.toBe(kidOf(first));
  expect(await verify(next, 'own', findKeyFile(dataDir, next))).toBe('verified');
});

test('P12: at scope call, each call has its own key', async () => {
  const { client } = await use('once', {});
  const kids = [kidOf(await tokenFor(client)), kidOf(await tokenFor(client))];
  expect(new Set(kids).size).toBe(2);
});

test.each(['fresh', 'old'])('P12: requests of Ambit itself to %s have the same key', async (server) => {
  const { client } = await use(server, {});
  const kid = kidOf(await tokenFor(client));
  const recorded = JSON.parse(await client.call('recorded')) as string[];
  const requests = recorded.filter((raw) => (JSON.parse(raw) as { id?: unknown }).id !== undefined);
  const methods = requests.map((raw) => (JSON.parse(raw) as { method: string }).method);
  expect(methods).toContain(server === 'old' ? 'initialize' : 'server/discover');
  expect(requests.map((raw) => kidOf(readToken(raw)))).toEqual(requests.map(() => kid));
});

test('P12: nobody sets the file by hand, and only a process with a key is told a file', async () => {
  const { AMBIT_CONTEXT_KEY_FILE: own, ...others } = await environmentOf((await use('own', {})).client);
  expect(listKeyFiles(dataDir)).toContain(own);
  expect(others).toMatchObject({ PARACHUTE_CONTEXT_KEY_FILE: own, KEPT: 'yes' });
  for (const server of ['wide', 'public', 'silent']) {
    const { client } = await use(server, {});
    const environment = await environmentOf(client);
    expect(Object.keys(environment).filter((name) => name.includes('KEY_FILE'))).toEqual([]);
    expect(environment['KEPT']).toBe('yes');
    expect(existsSync(join(environment['TMPDIR'] ?? '', 'context-key.json'))).toBe(false);
    if (server !== 'silent') expect(decodeProtectedHeader(await tokenFor(client)).alg).toBe('EdDSA');
  }
});
