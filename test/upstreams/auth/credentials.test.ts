import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import type { ServerLaunch } from '../../../src/upstreams/access/launch.ts';
import { createTarget, credentialKey } from '../../../src/upstreams/auth/credential-target.ts';
import { type Credentials, createCredentialAuth, openCredentials } from '../../../src/upstreams/auth/credentials.ts';
import { openSealingKeys } from '../../../src/upstreams/auth/sealed-documents.ts';
import type { HttpServer, StdioServer } from '../../../src/upstreams/definition.ts';

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-credentials-'));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

const token = createTarget('ada', 'notes', 'env', 'NOTES_TOKEN');
const secret = 'planted-secret-value-4711';
const unusable = expect.objectContaining({ code: 'CREDENTIAL_UNUSABLE' });
const keysIn = (dataDir: string, env: NodeJS.ProcessEnv = {}) => openSealingKeys({ dataDir, env });

async function open(store: SessionStore, keys = keysIn(folder)): Promise<Credentials> {
  const credentials = await openCredentials(store, keys);
  closing.push(() => store.close(), credentials.close);
  return credentials;
}
const onDisk = () => openSqliteStore({ file: join(folder, 'sessions.db') });

function thrown(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

describe('credentials in a store', () => {
  test('are read for their user and server only', async () => {
    const credentials = await open(openMemoryStore());
    await credentials.set(token, secret);
    await credentials.set(createTarget('eve', 'notes', 'env', 'NOTES_TOKEN'), 'hers');
    expect(credentials.read('ada', 'notes')).toEqual([{ ...token, value: secret }]);
    expect(credentials.read('eve', 'notes').map(({ value }) => value)).toEqual(['hers']);
    for (const [user, server] of [
      ['ada', 'note'],
      ['ad', 'notes'],
      ['ADA', 'notes'],
      ['', 'notes'],
      ['ada', ''],
    ] as const) {
      expect(credentials.read(user, server)).toEqual([]);
      expect(credentials.revision(user, server)).toBe('');
    }
    expect(await credentials.remove(token)).toBe(true);
    expect(await credentials.remove(token)).toBe(false);
    expect(credentials.read('ada', 'notes')).toEqual([]);
  });

  test('L10: the plain value lies nowhere on the disk; the key lies beside the store, private', async () => {
    const credentials = await open(await onDisk());
    await credentials.set(token, secret);
    await credentials.set(token, `${secret}-again`);
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(['sessions.db', 'credentials.key']));
    for (const { parentPath, name } of files) {
      const bytes = readFileSync(join(parentPath, name));
      for (const form of [secret, Buffer.from(secret).toString('base64'), Buffer.from(secret).toString('hex')]) {
        expect(bytes.includes(form), name).toBe(false);
      }
    }
    const keyFile = join(folder, 'keys', 'credentials.key');
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(JSON.stringify(credentials.list())).not.toContain(secret);
    expect(credentials.list()).toMatchObject([{ userId: 'ada', server: 'notes', env: 'NOTES_TOKEN', usable: true }]);
  });

  test('another process hears of a change, and whoever listens knows whose it is', async () => {
    const [here, there] = [await open(await onDisk()), await open(await onDisk())];
    const heard: string[] = [];
    let wake = () => {};
    there.onChange(async (concerns, server) => {
      heard.push(`${server} ${concerns('ada', 'notes')} ${concerns('eve', 'notes')}`);
      wake();
    });
    const hears = async (count: number) => {
      while (heard.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    await here.set(token, secret);
    await hears(1);
    expect(there.read('ada', 'notes')).toEqual([{ ...token, value: secret }]);
    const before = there.revision('ada', 'notes');
    await here.set(token, 'other');
    await hears(2);
    expect(there.read('ada', 'notes')).toMatchObject([{ value: 'other' }]);
    expect(there.revision('ada', 'notes')).not.toBe(before);
    await here.remove(token);
    await hears(3);
    expect(there.read('ada', 'notes')).toEqual([]);
    expect(heard).toEqual(Array(3).fill('notes true false'));
  });

  test('rows that somebody swapped, changed or copied open for nobody, and the server gets none', async () => {
    const store = await onDisk();
    const credentials = await open(store);
    const hers = createTarget('eve', 'notes', 'env', 'NOTES_TOKEN');
    await credentials.set(token, secret);
    await credentials.set(hers, 'hers');
    const [mine, other] = await Promise.all(
      [token, hers].map((place) => store.documents.get('credentials', credentialKey(place))),
    );
    for (const text of [other?.text ?? '', `${mine?.text.slice(0, -8)}AAAA=="}`, 'nonsense']) {
      await store.documents.put('credentials', credentialKey(token), text);
      while (
        credentials.revision('ada', 'notes') !==
        String((await store.documents.get('credentials', credentialKey(token)))?.version)
      ) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const error = thrown(() => credentials.read('ada', 'notes'));
      expect(error).toEqual(unusable);
      expect(String(error)).not.toContain(secret);
    }
    expect(credentials.read('eve', 'notes')).toMatchObject([{ value: 'hers' }]);
    expect(
      credentials
        .list()
        .map(({ usable }) => usable)
        .sort(),
    ).toEqual([false, true]);
    await credentials.set(token, 'anew');
    expect(credentials.read('ada', 'notes')).toMatchObject([{ value: 'anew' }]);
  });

  test('another key opens nothing, stores nothing beside it, and removes what cannot be opened', async () => {
    const keys = [1, 2].map((byte) => Buffer.alloc(32, byte).toString('base64'));
    const first = await open(await onDisk(), keysIn(folder, { AMBIT_CREDENTIALS_KEY: keys[0] }));
    await first.set(token, secret);
    const second = await open(await onDisk(), keysIn(folder, { AMBIT_CREDENTIALS_KEY: keys[1] }));
    expect(thrown(() => second.read('ada', 'notes'))).toEqual(unusable);
    await expect(second.set(createTarget('eve', 'notes', 'env', 'X'), 'y')).rejects.toEqual(unusable);
    const hex = Buffer.alloc(32, 1).toString('hex');
    const same = await open(await onDisk(), keysIn(folder, { AMBIT_CREDENTIALS_KEY: hex }));
    expect(same.read('ada', 'notes')).toMatchObject([{ value: secret }]);
    expect(await second.remove(token)).toBe(true);
    await second.set(token, 'with the second');
    expect(second.read('ada', 'notes')).toMatchObject([{ value: 'with the second' }]);
  });

  test('are refused while the store is unavailable', async () => {
    const store = openMemoryStore();
    let away = true;
    const documents = {
      ...store.documents,
      list: (...asked: Parameters<typeof store.documents.list>) =>
        away ? Promise.reject(new Error('away')) : store.documents.list(...asked),
    };
    const credentials = await open({ ...store, documents });
    expect(thrown(() => credentials.read('ada', 'notes'))).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(thrown(() => credentials.revision('ada', 'notes'))).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    away = false;
    await credentials.set(token, secret).catch(() => credentials.remove(token));
    while (!Array.isArray(thrown(() => credentials.read('ada', 'notes')))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
});

describe('the key', () => {
  test('is made once, however many need it at the same moment', async () => {
    const made = await Promise.all(Array.from({ length: 8 }, () => keysIn(folder).make()));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    expect(keysIn(folder).current()?.id).toBe(made[0]?.id);
  });

  test.each(['short', Buffer.alloc(31).toString('base64'), Buffer.alloc(33).toString('base64'), '!'.repeat(43)])(
    'is not %j',
    (text) => {
      const error = thrown(() => keysIn(folder, { AMBIT_CREDENTIALS_KEY: text })) as Error;
      expect(error).toMatchObject({ code: 'CONFIG_INVALID' });
      expect(error.message).not.toContain(text);
    },
  );

  test('that others can read, or that is not there, is not used', () => {
    const keyFile = join(folder, 'named.key');
    const named = () => openSealingKeys({ dataDir: folder, env: {}, keyFile });
    expect(thrown(named)).toMatchObject({ code: 'CONFIG_INVALID' });
    writeFileSync(keyFile, Buffer.alloc(32, 7).toString('base64'), { mode: 0o600 });
    expect(named().current()?.id).toMatch(/^[0-9a-f]{16}$/);
    chmodSync(keyFile, 0o640);
    expect(thrown(named)).toMatchObject({ code: 'CONFIG_INVALID' });
  });
});

const dataDir = mkdtempSync(join(tmpdir(), 'ambit-carry-'));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

const session = (userId: string) => ({ id: 's', userId }) as Session;
const http = { kind: 'http', name: 'search' } as HttpServer;
const stdio = (scope: StdioServer['scope']) => ({ kind: 'stdio', name: 'notes', scope }) as StdioServer;
const launch = {
  env: { A: 'a', TOKEN: 'configured' },
  cwd: '/',
  provenance: { A: 'configured' },
} as unknown as ServerLaunch;

test('anonymous users, unapproved servers and processes of several users get no credentials', async () => {
  const store = openMemoryStore();
  const credentials = await openCredentials(store, openSealingKeys({ dataDir, env: {} }));
  for (const user of ['ada', 'anonymous']) {
    await credentials.set(createTarget(user, 'search', 'header', 'X-Key'), user);
    await credentials.set(createTarget(user, 'notes', 'env', 'TOKEN'), user);
  }
  let approved = true;
  const auth = createCredentialAuth({ credentials, prefixes: () => ['AMBIT'], isApproved: () => approved });
  expect(auth.headers(session('ada'), http)).toEqual({ 'x-key': 'ada' });
  for (const scope of ['call', 'session', 'user'] as const) {
    const given = auth.addTo(launch, session('ada'), stdio(scope));
    expect(given).toMatchObject({
      env: { A: 'a', TOKEN: 'ada' },
      provenance: { A: 'configured', TOKEN: 'credential' },
    });
    const named = auth.describe(launch, session('ada'), stdio(scope));
    expect([named.env, named.provenance['TOKEN']]).toEqual([{ A: 'a' }, 'credential']);
  }
  expect(launch.env).toEqual({ A: 'a', TOKEN: 'configured' });
  function givesNothing(userId: string, scope: StdioServer['scope'] = 'session'): void {
    expect(auth.addTo(launch, session(userId), stdio(scope))).toBe(launch);
    expect(auth.describe(launch, session(userId), stdio(scope))).toBe(launch);
    expect(auth.hasAny(session(userId), stdio(scope))).toBe(false);
    expect(auth.revision(session(userId), stdio(scope))).toBe('');
  }
  givesNothing('anonymous');
  givesNothing('eve');
  givesNothing('ada', 'workspace');
  givesNothing('ada', 'shared');
  for (const user of ['anonymous', 'eve']) expect(auth.headers(session(user), http)).toEqual({});
  approved = false;
  givesNothing('ada');
  expect(auth.headers(session('ada'), http)).toEqual({});
  credentials.close();
  await store.close();
});
