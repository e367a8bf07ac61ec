import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { openDatabase } from '../../src/stores/sqlite/driver.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { repository } from '../structure/source-files.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-away-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const away = { code: 'STORE_UNAVAILABLE' };

describe('a file in trouble', () => {
  test('nobody else on the machine can read it', async () => {
    const store = await openSqliteStore({ file: join(folder, 'private.db') });
    await store.create(createNewSession());
    const files = (await readdir(folder)).filter((name) => name.startsWith('private.db'));
    expect(files.length).toBeGreaterThan(1);
    for (const name of files) expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
    await store.close();
  });

  test('another process keeps it locked: refused in bounded time, the event loop goes on, then it resumes', async () => {
    const file = join(folder, 'locked.db');
    const store = await openSqliteStore({ file, patienceMs: 200 });
    const session = createNewSession();
    await store.create(session);
    const other = openDatabase(file);
    other.exec('BEGIN IMMEDIATE');
    await expect(store.create(createNewSession())).rejects.toMatchObject(away);
    await expect(store.admit({ id: session.id })).rejects.toMatchObject(away);
    expect((await store.get(session.id))?.id).toBe(session.id);
    const patient = await openSqliteStore({ file, patienceMs: 30_000 });
    const waiting = patient.admit({ id: session.id });
    // If the event loop stood still, it would never come to this.
    setTimeout(() => other.exec('COMMIT'), 20);
    expect((await waiting).outcome).toBe('admitted');
    other.close();
    await Promise.all([store.close(), patient.close()]);
  });

  test('a refused write is not written later', async () => {
    const file = join(folder, 'late.db');
    const store = await openSqliteStore({ file, patienceMs: 50 });
    const other = openDatabase(file);
    other.exec('BEGIN IMMEDIATE');
    const session = createNewSession();
    await expect(store.create(session)).rejects.toMatchObject(away);
    other.exec('ROLLBACK');
    other.close();
    expect((await store.create(createNewSession())).outcome).toBe('created');
    expect(await store.get(session.id)).toBeUndefined();
    await store.close();
  });

  test('one job that is refused does not spoil those written with it', async () => {
    const store = await openSqliteStore({ file: join(folder, 'together.db') });
    const session = createNewSession();
    await store.create(session);
    const [first, refused, last] = await Promise.allSettled([
      store.state.set(session.id, 'a', 1),
      store.update(session.id, 1, { ttlSeconds: 10_000 }),
      store.state.set(session.id, 'b', 2),
    ]);
    expect([first.status, refused.status, last.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((await store.state.list(session.id)).keys.map(({ key, version }) => [key, version])).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
    await store.close();
  });

  test('a file that was taken away is made anew, and watchers know that they missed something', async () => {
    const file = join(folder, 'taken.db');
    const store = await openSqliteStore({ file });
    for (let index = 0; index < 3; index++) await store.create(createNewSession());
    const lost = new Promise<void>((resolve) => store.watch(({ kind }) => kind === 'lost' && resolve()));
    for (const ending of ['', '-wal', '-shm']) await rm(`${file}${ending}`, { force: true });
    await lost;
    const session = createNewSession();
    expect((await store.create(session)).outcome).toBe('created');
    const other = await openSqliteStore({ file });
    expect((await other.get(session.id))?.id).toBe(session.id);
    await other.close();
    await store.close();
  });

  test('what is no database, or comes from a newer Ambit, is refused and left as it is', async () => {
    const garbage = join(folder, 'garbage.db');
    await writeFile(garbage, 'this is not a database, whatever its name says. '.repeat(100));
    await expect(openSqliteStore({ file: garbage })).rejects.toMatchObject(away);
    expect((await stat(garbage)).size).toBe(4800);
    const newer = join(folder, 'newer.db');
    const database = openDatabase(newer);
    database.exec('PRAGMA user_version = 99');
    database.close();
    await expect(openSqliteStore({ file: newer })).rejects.toMatchObject({ message: expect.stringContaining('newer') });
    await expect(openSqliteStore({ file: join(folder, 'no', 'such', 'folder.db') })).rejects.toMatchObject(away);
  });

  test('opening it twice in one process takes no lock away from the first', async () => {
    const file = join(folder, 'twice.db');
    const first = openDatabase(file);
    first.exec('BEGIN IMMEDIATE');
    const second = openDatabase(file);
    const third =
      "const D=require('libsql');try{new D(process.argv[1]).exec('BEGIN IMMEDIATE')}catch(e){console.log(e.code)}";
    const { stdout } = spawnSync(process.execPath, ['-e', third, file], { encoding: 'utf8', cwd: repository });
    expect(stdout.trim()).toBe('SQLITE_BUSY');
    second.close();
    first.close();
  });

  test('many processes may open a new file at the same moment', async () => {
    const file = join(folder, 'crowd.db');
    const stores = await Promise.all(Array.from({ length: 8 }, () => openSqliteStore({ file })));
    const answers = await Promise.all(stores.map((store) => store.create(createNewSession({ name: 'one' }))));
    expect(answers.filter(({ outcome }) => outcome === 'created')).toHaveLength(1);
    await Promise.all(stores.map((store) => store.close()));
  });
});
