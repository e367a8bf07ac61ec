import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findPrivacyObstacle, makePrivateFolder } from '../../src/lib/fs/private-files.ts';
import { createGateway } from '../../src/public/create-gateway.ts';
import { openStore } from '../../src/stores/store-kinds.ts';
import { createApprovals } from '../../src/upstreams/pins/approvals.ts';

const somebodyElse = 65_534;
const mode = (path: string) => (lstatSync(path).mode & 0o777).toString(8);

let folder: string;
let dataDir: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-private-'));
  dataDir = join(folder, 'data');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const webhook = { url: 'https://127.0.0.1:9/none' };
const config = { version: 1, store: { kind: 'sqlite' }, events: { webhook } } as const;
const quiet = { info() {}, warn() {} };
const open = (where = dataDir) => createGateway({ config, dataDir: where, log: quiet });

/** Everything below that somebody else may read, write or enter; the public keys are for everybody. */
function openToOthers(): string[] {
  const all = readdirSync(dataDir, { recursive: true, encoding: 'utf8' });
  const kept = all.filter((path) => path !== join('keys', 'public', 'jwks.json'));
  return ['.', ...kept].filter((path) => (lstatSync(join(dataDir, path)).mode & 0o077) !== 0);
}

test('S2: everything in a new data directory is private, whatever the umask', async () => {
  const before = process.umask(0);
  try {
    const gateway = await open();
    await gateway.listSessions();
    expect(openToOthers()).toEqual([]);
    await gateway.close();
    expect(openToOthers()).toEqual([]);
  } finally {
    process.umask(before);
  }
});

test('S2: a data directory of an older version is closed to others, with the files in it', async () => {
  await (await open()).close();
  for (const name of ['catalog.json', 'eras.json']) writeFileSync(join(dataDir, name), '[]');
  // As long as somebody has the database open, its log and its shared memory lie beside it.
  const store = await openStore({ kind: 'sqlite' }, dataDir);
  await store.ping();
  for (const name of ['sessions.db-wal', 'sessions.db-shm']) expect(existsSync(join(dataDir, name))).toBe(true);
  for (const name of ['run', 'packages', 'folders', 'tmp', 'webhook'])
    mkdirSync(join(dataDir, name), { recursive: true });
  const secrets = [join('keys', 'signing.json'), 'webhook-secret'];
  for (const path of readdirSync(dataDir, { recursive: true, encoding: 'utf8' })) {
    if (!secrets.includes(path)) chmodSync(join(dataDir, path), statSync(join(dataDir, path)).isFile() ? 0o644 : 0o755);
  }
  chmodSync(dataDir, 0o755);
  const gateway = await open();
  await gateway.listSessions();
  expect(openToOthers()).toEqual([]);
  await gateway.close();
  await store.close();
});

test('S2: an empty folder that all may write to is closed before it is used', async () => {
  mkdirSync(dataDir);
  chmodSync(dataDir, 0o777);
  await (await open()).close();
  expect(openToOthers()).toEqual([]);
});

test('S2: a command that only approves closes the data directory too', async () => {
  mkdirSync(dataDir);
  chmodSync(dataDir, 0o755);
  const approvals = createApprovals({ dataDir });
  await approvals.revoke('nobody');
  expect(mode(dataDir)).toBe('700');
});

describe('S2: a data directory that cannot be made private is refused', () => {
  /** What is somebody else's: as root it can be made, otherwise the system has enough of it. */
  function foreignFolder(): string {
    if (process.getuid?.() !== 0) return '/usr';
    mkdirSync(dataDir);
    chownSync(dataDir, somebodyElse, somebodyElse);
    return dataDir;
  }

  const links = () => join(folder, 'link');

  test.each<[string, () => string, RegExp]>([
    ['one of somebody else', foreignFolder, /belongs to another user/],
    [
      'a link to one of somebody else',
      () => {
        symlinkSync(foreignFolder(), links());
        return links();
      },
      /belongs to another user/,
    ],
    [
      'one that all users share',
      () => {
        mkdirSync(dataDir);
        chmodSync(dataDir, 0o1777);
        return dataDir;
      },
      /shared by all users/,
    ],
    [
      'one that holds other things',
      () => {
        mkdirSync(join(dataDir, 'photos'), { recursive: true });
        chmodSync(dataDir, 0o755);
        return dataDir;
      },
      /contains files that do not belong to Ambit/,
    ],
    [
      'a file',
      () => {
        writeFileSync(dataDir, '');
        return dataDir;
      },
      /not a folder/,
    ],
  ])('%s', async (_what, make, why) => {
    const where = make();
    const before = lstatSync(where).mode;
    await expect(open(where)).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringMatching(why) });
    expect(lstatSync(where).mode).toBe(before);
    if (where === dataDir && lstatSync(where).isDirectory()) expect(existsSync(join(where, 'journal'))).toBe(false);
  });

  test.each<[string, () => string]>([
    ['a folder above it', () => dataDir],
    [
      'a folder above what a link leads to',
      () => {
        symlinkSync(dataDir, links());
        return links();
      },
    ],
  ])('one that others could replace through %s', async (_what, make) => {
    const above = join(folder, 'above');
    mkdirSync(above);
    chmodSync(above, 0o777);
    dataDir = join(above, 'deeper', 'data');
    const where = make();
    for (const isThere of [false, true]) {
      if (isThere) mkdirSync(dataDir, { recursive: true, mode: 0o700 });
      const refused = { code: 'CONFIG_INVALID', hint: expect.stringContaining('chmod go-w') };
      await expect(open(where)).rejects.toMatchObject({ ...refused, message: expect.stringContaining(above) });
      expect(findPrivacyObstacle(where)).toContain(above);
      expect(readdirSync(above)).toEqual(isThere ? ['deeper'] : []);
    }
    expect(readdirSync(dataDir)).toEqual([]);
  });

  test.runIf(process.getuid?.() === 0)('one below a folder of somebody else', async () => {
    mkdirSync(join(folder, 'theirs', 'data'), { recursive: true, mode: 0o700 });
    chownSync(join(folder, 'theirs'), somebodyElse, somebodyElse);
    await expect(open(join(folder, 'theirs', 'data'))).rejects.toThrow(/theirs belongs to another user/);
  });

  test.each(['.', 'journal', 'keys'])('one where others could write to %s', async (name) => {
    await (await open()).close();
    chmodSync(join(dataDir, name), 0o777);
    await expect(open()).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(/can write to it/),
    });
    expect(mode(join(dataDir, name))).toBe('777');
  });

  test('one whose mode cannot be changed', () => {
    // A folder of ours on a file system that knows no other mode.
    expect(() => makePrivateFolder(`/proc/${process.pid}/task`)).toThrow(/mode cannot be changed/);
  });

  test('but a link to one of ours is followed', async () => {
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o755);
    symlinkSync(dataDir, links());
    await (await open(links())).close();
    expect(mode(dataDir)).toBe('700');
  });
});
