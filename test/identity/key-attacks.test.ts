import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { AmbitError } from '../../src/errors.ts';
import { mintToken, parseToken } from '../../src/identity/token.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openDirectory, unbounded } from './test-directory.ts';

const unknown = `UNAUTHENTICATED: ${new AmbitError('UNAUTHENTICATED').message}`;
/** A whole key with another secret. */
const guessed = (id: string) => mintToken('ambk', id).token;

describe('a key', () => {
  test('G2: proves its user, with the ceiling it was made with', async () => {
    const { directory, createKeyFor: keyFor } = openDirectory();
    const ceiling = { trustLevel: 'sandboxed', workspaces: ['shop'], scopes: ['notes:write'] } as const;
    const { id, key } = await keyFor('ada', ceiling);
    expect(key).toMatch(new RegExp(`^ambk_${id}_[0-9A-Za-z]{49}$`));
    expect(await directory.keys.verify(parseToken(key))).toEqual({
      kind: 'user',
      userId: 'ada',
      via: 'key',
      keyId: id,
      ceiling,
    });
  });

  test('with a typo anywhere needs no read of the store', async () => {
    const { reads, tryKey: tries, createKeyFor: keyFor } = openDirectory();
    const { key } = await keyFor('ada');
    reads.length = 0;
    await fc.assert(
      fc.asyncProperty(fc.nat(key.length - 1), fc.constantFrom(...'0aZ_-é'), async (at, character) => {
        const wrong = key.slice(0, at) + character + key.slice(at + 1);
        fc.pre(wrong !== key);
        expect(await tries(wrong)).toBe(unknown);
      }),
    );
    expect(reads).toEqual([]);
    expect(await tries(key)).toBe('ada');
  });

  test('that is unknown, wrong, revoked or expired looks alike to whoever does not hold the secret', async () => {
    const some = openDirectory();
    const { reads, tryKey: tries, createKeyFor: keyFor, directory } = some;
    const good = await keyFor('ada');
    const revoked = await keyFor('ada');
    await directory.keys.revoke(revoked.id);
    const expired = await directory.keys.create({
      userId: 'ada',
      ceiling: { trustLevel: 'direct', workspaces: null, scopes: null },
      lifeSeconds: 60,
    });
    some.advance(61_000);
    // One that is in use answers from memory, but only to its holder.
    expect(await tries(good.key)).toBe('ada');
    for (const id of [good.id, revoked.id, expired.view.id, '0'.repeat(32), 'x']) {
      reads.length = 0;
      expect(await tries(guessed(id))).toBe(unknown);
      expect(reads).toEqual(['keys']);
    }
    expect(await tries(revoked.key)).toBe('UNAUTHENTICATED: The key has been revoked.');
    expect(await tries(expired.key)).toBe('UNAUTHENTICATED: The key has expired.');
  });

  test('is compared in constant time before anything is decided', () => {
    const source = readFileSync(join(import.meta.dirname, '../../src/identity/keys.ts'), 'utf8');
    const body = source.slice(
      source.lastIndexOf('const record = await readRecord(id)'),
      source.lastIndexOf('const state ='),
    );
    const decides = body.search(/\b(?:if|return|throw)\b|&&|\|\|/);
    expect(body.match(/digestsEqual\(/g)).toHaveLength(2);
    expect(body.lastIndexOf('digestsEqual(')).toBeLessThan(decides);
  });

  test('that was rotated is taken until the overlap is over, and not after', async () => {
    const some = openDirectory();
    const { tryKey: tries, directory } = some;
    const first = await some.createKeyFor('ada');
    const second = await directory.keys.rotate(first.id, 3600);
    expect(second.view.previousUntil).not.toBeNull();
    expect([await tries(first.key), await tries(second.key), await tries(first.key)]).toEqual(['ada', 'ada', 'ada']);
    some.advance(3600_000);
    expect(await tries(first.key)).toBe('UNAUTHENTICATED: The key has been rotated. This is the old one.');
    expect(await tries(second.key)).toBe('ada');
    const third = await directory.keys.rotate(first.id);
    expect(await tries(second.key)).toContain('rotated');
    expect(await tries(third.key)).toBe('ada');
    // Long gone: its digest is kept no longer.
    expect(await tries(first.key)).toBe(unknown);
    expect(await tries(guessed(first.id))).toBe(unknown);
  });

  test('that expires is refused in the very moment, however fresh it is in memory', async () => {
    const some = openDirectory();
    await some.directory.users.add('ada');
    const ceiling = { trustLevel: 'direct', workspaces: null, scopes: null } as const;
    const { key } = await some.directory.keys.create({ userId: 'ada', ceiling, lifeSeconds: 10 });
    expect(await some.tryKey(key)).toBe('ada');
    some.advance(10_000);
    expect(await some.tryKey(key)).toContain('expired');
  });

  test('in use is read from the store once in a while, not with each request', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const { reads, tryKey: tries, createKeyFor: keyFor } = openDirectory();
    const { key } = await keyFor('ada');
    expect(await tries(key)).toBe('ada');
    reads.length = 0;
    for (let i = 0; i < 100; i++) expect(await tries(key)).toBe('ada');
    expect(reads).toEqual([]);
  });

  test('that is revoked elsewhere stops here, and so does one whose user is removed', async () => {
    const store = openMemoryStore();
    const [here, there] = [openDirectory(store), openDirectory(store)];
    const [one, two] = [await here.createKeyFor('ada'), await here.createKeyFor('eve')];
    expect([await there.tryKey(one.key), await there.tryKey(two.key)]).toEqual(['ada', 'eve']);
    await here.directory.keys.revoke(one.id);
    expect(await there.tryKey(one.key)).toContain('revoked');
    await here.directory.users.remove('eve');
    expect(await there.tryKey(two.key)).toContain('no longer exists');
  });

  test('that is revoked while it is being read is not remembered as good', async () => {
    const store = openMemoryStore();
    const { createKeyFor: keyFor, directory } = openDirectory(store);
    const { id, key } = await keyFor('ada');
    let revoke = async (): Promise<unknown> => undefined;
    const slow = openDirectory({
      ...store,
      documents: {
        ...store.documents,
        async get(collection, name) {
          const found = await store.documents.get(collection, name);
          if (collection === 'keys') await revoke();
          return found;
        },
      },
    });
    revoke = () => directory.keys.revoke(id);
    expect(await slow.tryKey(key)).toBe('ada');
    expect(await slow.tryKey(key)).toContain('revoked');
  });

  test('G2: is not made for a user who is removed after the check and before the key is written', async () => {
    const store = openMemoryStore();
    const { directory } = openDirectory(store);
    const interrupted = openDirectory({
      ...store,
      documents: {
        ...store.documents,
        async put(collection, name, text, options) {
          if (collection === 'keys') await directory.users.remove('ada');
          return store.documents.put(collection, name, text, options);
        },
      },
    });
    await directory.users.add('ada');
    const making = interrupted.directory.keys.create({ userId: 'ada', ceiling: unbounded });
    await expect(making).rejects.toMatchObject({ code: 'USER_NOT_FOUND' });
    // Else the key would work again for the next user of that name.
    await directory.users.add('ada');
    expect(await directory.keys.list()).toEqual([]);
  });

  test('G2: of a user who was removed is not good, nor is one that was revoked or has expired', async () => {
    const some = openDirectory();
    const { directory } = some;
    const [removed, revoked] = [await some.createKeyFor('eve'), await some.createKeyFor('ada')];
    const { view: expiring } = await directory.keys.create({ userId: 'ada', ceiling: unbounded, lifeSeconds: 10 });
    const ids = [removed.id, revoked.id, expiring.id];
    for (const id of ids) expect(await directory.keys.isGood(id)).toBe(true);
    await directory.users.remove('eve');
    await directory.keys.revoke(revoked.id);
    some.advance(10_000);
    for (const id of ids) expect(await directory.keys.isGood(id)).toBe(false);
  });

  test('G2: that is revoked stops within a second where nothing is heard of it', async () => {
    const store = openMemoryStore();
    const { directory, createKeyFor: keyFor } = openDirectory(store);
    const deaf = openDirectory({ ...store, watch: () => () => {} });
    const { id, key } = await keyFor('ada');
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000_000);
    try {
      expect(await deaf.tryKey(key)).toBe('ada');
      await directory.keys.revoke(id);
      clock.mockReturnValue(1_000_999);
      expect(await deaf.tryKey(key)).toContain('revoked');
    } finally {
      clock.mockRestore();
    }
  });

  test('whose record was tampered with is no key', async () => {
    const { store, tryKey: tries, createKeyFor: keyFor } = openDirectory();
    const { id, key } = await keyFor('ada');
    const { text = '' } = (await store.documents.get('keys', id)) ?? {};
    for (const wrong of [
      text.replace('"direct"', '"anything"'),
      text.replace('"workspaces":null', '"workspaces":"all"'),
      text.replace(id, '0'.repeat(32)),
      text.replace('"expiresAt":null', '"expiresAt":"never"'),
      '{"v":1}',
      'null',
      'nonsense',
    ]) {
      expect(wrong).not.toBe(text);
      await store.documents.put('keys', id, wrong);
      expect(await tries(key)).toBe(unknown);
    }
    await store.documents.put('keys', id, text);
    expect(await tries(key)).toBe('ada');
  });

  test('of a session is none of a user, and the other way round', async () => {
    const { tryKey: tries, reads } = openDirectory();
    reads.length = 0;
    expect(await tries(mintToken('ambs', 'a'.repeat(32)).token)).toBe(unknown);
    expect(reads).toEqual([]);
  });
});
