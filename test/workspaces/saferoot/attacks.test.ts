import { chmodSync, chownSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { openRoot, type SafeRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { createLinuxFs, isKernelFileSystem } from '../../../src/workspaces/saferoot/platform/linux-fs.ts';
import { selectPlatformFs, testPlatformFs } from '../../../src/workspaces/saferoot/platform/select-platform-fs.ts';
import { SafeRootError } from '../../../src/workspaces/saferoot/saferoot-error.ts';
import { canChange, changeOwner, copyScripts, ordinary, own, runAsAccount } from './accounts.ts';
import { layTraps, listHostilePaths, oddNames } from './attacks.ts';
import {
  countDescriptors,
  createSceneForTest,
  expectNoMoreDescriptors,
  listNamesBelow,
  type Scene,
  secret,
  settleOutcome,
  takeSnapshot,
} from './scene.ts';

const operations: Readonly<Record<string, (root: SafeRoot, path: string, n: number) => Promise<unknown>>> = {
  read: (root, path) => root.read(path),
  list: (root, path) => root.list(path),
  stat: (root, path) => root.stat(path),
  readlink: (root, path) => root.readlink(path),
  create: (root, path) => root.create(path, 'planted', { parents: true }),
  replace: (root, path) => root.replace(path, 'planted', { parents: true, create: true }),
  mkdir: (root, path) => root.mkdir(path, { parents: true }),
  'rename from': (root, path, n) => root.rename(path, `taken-${n}`),
  'rename to': async (root, path, n) => {
    await root.create(`bait-${n}`, 'planted');
    await root.rename(`bait-${n}`, path, { overwrite: true, parents: true });
  },
  remove: (root, path) => root.remove(path),
  removeTree: (root, path) => root.removeTree(path),
};

/** These act on a last component itself, so a trap may be taken away or looked at. It is not stepped into. */
const onTheNameItself = new Set(['readlink', 'rename from', 'rename to', 'remove', 'removeTree']);
const snapshotOutside = (scene: Scene) => [takeSnapshot(scene.outside()), takeSnapshot(join(scene.base, 'ws-evil'))];

describe('W3: a path that leads out, or to what is not a file', () => {
  test('is refused with its reason, without blocking', async () => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const root = scene.open();
    const outcomes = [];
    for (const [path] of listHostilePaths(scene)) outcomes.push([path, await settleOutcome(root.read(path))]);
    expect(outcomes).toEqual(listHostilePaths(scene).map(([path, code]) => [path, code]));
  });

  test.each(Object.entries(operations))('%s by it touches nothing outside', async (name, operation) => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const before = snapshotOutside(scene);
    const root = scene.open();
    let n = 0;
    for (const [path, code] of listHostilePaths(scene)) {
      const outcome = await settleOutcome(operation(root, path, n++));
      const refused = typeof outcome === 'string' && /^[A-Z_]+$/.test(outcome);
      const special = code === 'SPECIAL_FILE' && name === 'stat';
      if (!onTheNameItself.has(name) && !special) expect(refused, `${name} ${path} → ${inspect(outcome)}`).toBe(true);
      expect(inspect(outcome)).not.toContain(secret);
      if (path.includes('/') || path.startsWith('.'))
        expect(refused, `${name} ${path} → ${inspect(outcome)}`).toBe(true);
    }
    expect(snapshotOutside(scene)).toEqual(before);
  });

  test('that only looks hostile is an unusual name inside', async () => {
    const scene = createSceneForTest();
    const before = snapshotOutside(scene);
    const root = scene.open();
    for (const path of oddNames) {
      expect(await settleOutcome(root.read(path)), path).toBe('FILE_NOT_FOUND');
      await root.create(path, path, { parents: true });
      expect((await root.read(path)).toString()).toBe(path);
      expect(readFileSync(scene.inside(path), 'utf8')).toBe(path);
    }
    expect(snapshotOutside(scene)).toEqual(before);
  });

  test('is refused with a message that contains no path of the host', async () => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const root = scene.open();
    for (const operation of Object.values(operations)) {
      for (const [path] of listHostilePaths(scene)) {
        const error: unknown = await operation(root, path, 0).then(
          () => undefined,
          (thrown) => thrown,
        );
        if (error === undefined) continue;
        expect(error).toBeInstanceOf(SafeRootError);
        const shown = error as SafeRootError;
        expect(shown.message).not.toMatch(/\/proc\/self|ambit-scene|[\0-\x1f]/);
        expect(inspect({ ...shown, path: '', message: shown.message })).not.toMatch(/\/proc\/self|ambit-scene/);
        expect(shown.cause).toBeUndefined();
      }
    }
  });
});

describe('contents of the folder', () => {
  test('a file with another name outside is read, unless the folder is strict, and replaced by a new one', async () => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const strict = scene.open({ strict: true });
    for (const work of [strict.read('hard'), strict.replace('hard', 'x')]) {
      expect(await settleOutcome(work)).toBe('HARD_LINKED');
    }
    const root = scene.open();
    expect((await root.read('hard')).toString()).toBe(secret);
    expect((await root.stat('hard')).names).toBe(2);
    await root.replace('hard', 'mine');
    expect(readFileSync(scene.outside('f.txt'), 'utf8')).toBe(secret);
  });

  test('a kernel file system is neither entered nor opened as root', async () => {
    const root = openRoot('/');
    for (const path of ['proc/self/environ', 'proc/self/root/etc/passwd', 'proc/1/cmdline']) {
      expect(await settleOutcome(root.read(path)), path).toBe('PATH_VIOLATION');
    }
    expect(await settleOutcome(root.read('dev/zero'))).toBe('SPECIAL_FILE');
    root.close();
    const before = countDescriptors();
    expect(() => openRoot('/proc')).toThrow('file system of the kernel');
    await expectNoMoreDescriptors(before);
  });

  test('a written file never has set-user-id, even if the old one had', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'old');
    chmodSync(scene.inside('f.txt'), 0o6755);
    const root = scene.open();
    const copy = scene.outside('copy');
    const file = await root.open('f.txt');
    await file.copyTo(copy);
    await file.close();
    await root.replace('f.txt', 'new');
    await root.create('small', 'x', { mode: 0o6755 });
    await root.create('large', new Uint8Array(100_000), { mode: 0o6755 });
    const modes = [copy, ...['f.txt', 'small', 'large'].map(scene.inside)].map((path) => statSync(path).mode & 0o7777);
    const made = 0o755 & ~process.umask();
    expect(modes).toEqual([0o600, 0o755, made, made]);
  });

  test('each kernel file system is known by the number that the kernel uses', () => {
    // From linux/magic.h and the sources of the file systems.
    const kernel = {
      ...{ proc: 0x9fa0, sysfs: 0x62656572, configfs: 0x62656570, debugfs: 0x64626720, tracefs: 0x74726163 },
      ...{ securityfs: 0x73636673, cgroup: 0x27e0eb, cgroup2: 0x63677270, bpf: 0xcafe4a11, efivarfs: 0xde5e81e4 },
      ...{ pstore: 0x6165676c, selinux: 0xf97cff8c, smack: 0x43415d53, apparmor: 0x5a3c69f0, devpts: 0x1cd1 },
      ...{ binfmt_misc: 0x42494e4d, mqueue: 0x19800202, fusectl: 0x65735543, nfsd: 0x6e667364 },
      ...{ rpc_pipefs: 0x67596969, resctrl: 0x7655821, nsfs: 0x6e736673 },
    };
    expect(Object.entries(kernel).filter(([, type]) => !isKernelFileSystem(type))).toEqual([]);
    // The same numbers, where the system hands them over with a sign.
    expect(Object.entries(kernel).filter(([, type]) => !isKernelFileSystem(type | 0))).toEqual([]);
    const ordinary = { ext4: 0xef53, btrfs: 0x9123683e, xfs: 0x58465342, tmpfs: 0x01021994, overlay: 0x794c7630 };
    expect(Object.entries(ordinary).filter(([, type]) => isKernelFileSystem(type))).toEqual([]);
  });

  test('other mounts are entered, unless the folder is strict', async () => {
    const [root, strict] = [openRoot('/'), openRoot('/', { strict: true })];
    expect((await root.stat('dev')).kind).toBe('folder');
    expect(await settleOutcome(strict.stat('dev'))).toBe('PATH_VIOLATION');
    expect((await strict.stat('usr/bin')).kind).toBe('folder');
    root.close();
    strict.close();
  });

  test('a tree that is too deep is refused whole', async () => {
    const scene = createSceneForTest();
    const deep = 'd/'.repeat(200);
    mkdirSync(scene.inside(deep), { recursive: true });
    const root = scene.open();
    expect(await settleOutcome(root.stat(deep))).toBe('TOO_DEEP');
    expect(await settleOutcome(root.removeTree('d'))).toBe('TOO_DEEP');
    expect(await settleOutcome(root.mkdir(`e/${deep}`, { parents: true }))).toBe('TOO_DEEP');
    expect(listNamesBelow(scene.inside()).filter((name) => name.startsWith('d'))).toHaveLength(200);
  });
});

describe('platforms that are not safe', () => {
  test('other platforms are refused', () => {
    for (const platform of ['win32', 'freebsd'] as const) {
      expect(() => selectPlatformFs(platform, false)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
    }
  });

  test('a system without the path prefixes of macOS is refused', () => {
    expect(() => selectPlatformFs('darwin', false)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
  });

  test('the self-test detects a platform that follows links by itself', async () => {
    const honest = createLinuxFs(false);
    const before = countDescriptors();
    const gullible = {
      ...honest,
      step: (from: { path: string }, name: string | Buffer) => honest.openRoot(join(from.path, name.toString())),
    };
    expect(() => testPlatformFs(gullible)).toThrow('links are followed unasked');
    const blind = {
      ...honest,
      step: () => {
        throw Object.assign(new Error('x'), { code: 'ENOENT' });
      },
    };
    expect(() => testPlatformFs(blind)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
    expect(() => testPlatformFs(honest)).not.toThrow();
    await expectNoMoreDescriptors(before);
  });

  test('a root that is missing or no folder is refused without its path', () => {
    const scene = createSceneForTest();
    expect(() => openRoot(scene.outside('f.txt'))).toThrow('The path is not a folder');
    expect(() => openRoot(scene.outside('missing'))).toThrow('The path does not exist.');
  });
});

test.runIf(canChange)('W3: an ordinary account is refused the same, and by its permissions', async () => {
  const scene = createSceneForTest();
  await layTraps(scene);
  const questions = listHostilePaths(scene).map(([path, code]) => [code, 'read', path] as const);
  for (const name of ['protected', 'unreadable', 'foreign']) writeFileSync(scene.inside(name), 'x');
  mkdirSync(scene.inside('closed'));
  writeFileSync(scene.inside('closed/f'), 'x');
  const { script, module } = copyScripts(scene);
  changeOwner(scene, ordinary);
  // The kernel allows no second name for a file of another account, so it is moved by the fallback.
  chownSync(scene.inside('foreign'), own.uid, own.gid);
  // Its own files, with its own rights taken away.
  chmodSync(scene.inside('protected'), 0o444);
  chmodSync(scene.inside('unreadable'), 0o200);
  chmodSync(scene.inside('closed'), 0o500);
  const asked = [
    ...questions,
    ['done', 'read', 'protected'],
    ['NO_PERMISSION', 'mayWrite', 'protected'],
    ['NO_PERMISSION', 'mayWrite', 'closed/g'],
    ['NO_PERMISSION', 'mayWrite', 'closed/g/deep'],
    ['done', 'mayWrite', 'g'],
    ['NO_PERMISSION', 'replace', 'protected', 'y'],
    ['NO_PERMISSION', 'read', 'unreadable'],
    ['done', 'stat', 'unreadable'],
    ['NO_PERMISSION', 'create', 'closed/g', 'y'],
    ['NO_PERMISSION', 'rename', 'closed/f', 'g'],
    ['NO_PERMISSION', 'rename', 'a/f.txt', 'closed/g'],
    ['done', 'rename', 'a/f.txt', 'g'],
    ['EXISTS', 'rename', 'foreign', 'g'],
    ['done', 'rename', 'foreign', 'moved'],
  ];
  const file = join(scene.base, 'questions.json');
  writeFileSync(file, JSON.stringify(asked.map(([, ...question]) => question)));
  const outcomes = await runAsAccount(ordinary, [script('asker.js'), module, scene.inside(), file]);
  expect(asked.map(([, ...question], n) => [(outcomes as string[])[n], ...question])).toEqual(asked);
  expect(listNamesBelow(scene.inside('closed'))).toEqual(['f']);
  expect(readFileSync(scene.inside('g'), 'utf8')).toBe('inside');
  expect(readFileSync(scene.inside('moved'), 'utf8')).toBe('x');
  expect(listNamesBelow(scene.inside())).not.toContain('foreign');
});
