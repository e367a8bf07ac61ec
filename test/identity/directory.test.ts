import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { openDirectory, unbounded } from './test-directory.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe('users and teams', () => {
  test('are added, join teams, and are listed', async () => {
    const { directory } = openDirectory();
    await directory.users.add('ada', ['core']);
    await directory.users.add('ada', ['ops', 'core']);
    await directory.users.add('eve');
    expect(await directory.teamsOf('ada')).toEqual(['core', 'ops']);
    expect(await directory.teamsOf('nobody')).toEqual([]);
    expect((await directory.users.list()).map(({ name, teams }) => [name, teams])).toEqual([
      ['ada', ['core', 'ops']],
      ['eve', []],
    ]);
    await directory.users.setTeams('ada', ['ops']);
    expect(await directory.teams.list()).toEqual([{ name: 'ops', declared: false, members: ['ada'] }]);
    await expect(directory.users.setTeams('nobody', [])).rejects.toMatchObject({ code: 'USER_NOT_FOUND' });
    expect(await directory.users.remove('ada')).toBe(true);
    expect(await directory.users.remove('ada')).toBe(false);
  });

  test.each(['', 'a b', '-a', '../x', 'a'.repeat(129), 'anonymous', 'a\u0000', 'ä'])('%j is no user', async (name) => {
    const { directory } = openDirectory();
    await expect(directory.users.add(name)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    expect(await directory.users.get(name)).toBeUndefined();
    expect(await directory.users.remove(name)).toBe(false);
  });

  test('those in the configuration win, and change only there', async () => {
    const store = openMemoryStore();
    await openDirectory(store).directory.users.add('ada', ['other']);
    const { directory } = openDirectory(store, {
      organisation: 'Acme',
      teams: ['core', 'empty'],
      users: [{ name: 'ada', teams: ['core'] }],
    });
    await directory.users.add('eve', ['core']);
    expect(directory.organisation()).toBe('Acme');
    expect(await directory.teamsOf('ada')).toEqual(['core']);
    expect((await directory.users.list()).map(({ name, declared }) => [name, declared])).toEqual([
      ['ada', true],
      ['eve', false],
    ]);
    expect(await directory.teams.list()).toEqual([
      { name: 'core', declared: true, members: ['ada', 'eve'] },
      { name: 'empty', declared: true, members: [] },
    ]);
    for (const change of [
      () => directory.users.add('ada', ['x']),
      () => directory.users.setTeams('ada', []),
      () => directory.users.remove('ada'),
    ]) {
      await expect(change()).rejects.toMatchObject({ code: 'REQUEST_INVALID', rule: 'governance.users' });
    }
  });

  test('two who change one user at the same moment both have their way', async () => {
    const { directory } = openDirectory();
    await Promise.all(Array.from({ length: 8 }, (_, at) => directory.users.add('ada', [`team-${at}`])));
    expect([...(await directory.teamsOf('ada'))].sort()).toEqual(Array.from({ length: 8 }, (_, at) => `team-${at}`));
  });
});

describe('keys', () => {
  test('are made for users there are, and listed without anything that proves them', async () => {
    const { directory, createKeyFor: keyFor } = openDirectory();
    await expect(directory.keys.create({ userId: 'ada', ceiling: unbounded })).rejects.toMatchObject({
      code: 'USER_NOT_FOUND',
    });
    const [one, two] = [await keyFor('ada', { trustLevel: 'sandboxed' }), await keyFor('eve')];
    await directory.keys.revoke(two.id);
    const listed = await directory.keys.list();
    expect(listed.map(({ userId, state, trustLevel }) => [userId, state, trustLevel]).sort()).toEqual([
      ['ada', 'active', 'sandboxed'],
      ['eve', 'revoked', 'direct'],
    ]);
    expect((await directory.keys.list({ userId: 'ada' })).map(({ id }) => id)).toEqual([one.id]);
    expect(JSON.stringify(listed)).not.toContain(one.key.slice(-20));
    expect(Object.keys(listed[0] ?? {})).not.toContain('digest');
    await expect(directory.keys.rotate(two.id)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    await expect(directory.keys.rotate('nothing')).rejects.toMatchObject({ code: 'KEY_NOT_FOUND' });
    expect(await directory.keys.revoke('nothing')).toBeUndefined();
    expect(await directory.keys.revoke('../x')).toBeUndefined();
  });

  test('lie in the store as digests alone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ambit-directory-'));
    folders.push(folder);
    const store = await openSqliteStore({ file: join(folder, 'sessions.db') });
    const { createKeyFor: keyFor, tryKey: tries } = openDirectory(store);
    const { key } = await keyFor('ada');
    expect(await tries(key)).toBe('ada');
    await store.close();
    for (const name of readdirSync(folder)) {
      expect(readFileSync(join(folder, name)).includes(key.slice(-49)), name).toBe(false);
    }
  });

  test('say when they were used, within a minute and not with each use', async () => {
    const some = openDirectory();
    const { id, key } = await some.createKeyFor('ada');
    const lastUse = async () => (await some.directory.keys.get(id))?.lastUsedAt;
    expect(await lastUse()).toBeNull();
    await some.tryKey(key);
    const first = await lastUse();
    expect(first).not.toBeNull();
    some.directory.keys.revoke('other');
    some.advance(30_000);
    await some.directory.users.add('somebody');
    await some.tryKey(key);
    expect(await lastUse()).toBe(first);
    some.advance(31_000);
    await some.directory.users.add('somebody-else');
    await some.tryKey(key);
    expect(Date.parse((await lastUse()) ?? '') - Date.parse(first ?? '')).toBeGreaterThanOrEqual(60_000);
  });

  test('that will never work again make room for new ones', async () => {
    const store = openMemoryStore({ documentLimits: { documents: 3 } });
    const { directory, createKeyFor: keyFor, tryKey: tries } = openDirectory(store);
    const [one, two] = [await keyFor('ada'), await keyFor('ada')];
    await keyFor('ada');
    await expect(keyFor('ada')).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
    await directory.keys.revoke(two.id);
    expect(await tries((await keyFor('ada')).key)).toBe('ada');
    expect(await tries(one.key)).toBe('ada');
    expect(await directory.keys.get(two.id)).toBeUndefined();
  });

  test('of several users are noticed as soon as there are any', async () => {
    const { directory, createKeyFor: keyFor } = openDirectory();
    const several = () => directory.keys.areOfSeveralUsers();
    await keyFor('ada');
    await keyFor('ada');
    expect(await several()).toBe(false);
    const { id } = await keyFor('eve');
    expect(await several()).toBe(true);
    await directory.keys.revoke(id);
    expect(await several()).toBe(false);
  });
});
