import {
  chmodSync,
  chownSync,
  constants,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isTemporaryName } from '../../../src/workspaces/saferoot/write-file.ts';
import { counts } from '../../proof.ts';
import {
  countDescriptors,
  createSceneForTest,
  expectNoMoreDescriptors,
  listNamesBelow,
  makeFifo,
  settleOutcome,
  takeSnapshot,
} from './scene.ts';

async function* yieldPieces(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

/** How a file of this process is open, as the kernel has it. */
function readOpenFlags(path: string): number {
  const descriptor = readdirSync('/proc/self/fd').find((each) => {
    try {
      return readlinkSync(`/proc/self/fd/${each}`) === path;
    } catch {
      return false;
    }
  });
  const said = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1');
  return Number.parseInt(/^flags:\s*(\d+)/m.exec(said)?.[1] ?? '', 8);
}

describe('reading', () => {
  test.runIf(process.platform === 'linux')('does not wait for a lease on the file', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'x');
    const file = await scene.open().open('f.txt');
    expect(readOpenFlags(realpathSync(scene.inside('f.txt'))) & constants.O_NONBLOCK).not.toBe(0);
    expect((await file.read(0, 10)).toString()).toBe('x');
    await file.close();
  });

  test('reads a file, a part of it, and the same file after its name is gone', async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('a'));
    writeFileSync(scene.inside('a/f.txt'), '0123456789');
    const root = scene.open();
    expect((await root.read('a/f.txt')).toString()).toBe('0123456789');
    expect((await root.read('./a//f.txt', { offset: 2, length: 3 })).toString()).toBe('234');
    expect((await root.read('a/f.txt', { offset: 8, length: 99 })).toString()).toBe('89');
    expect((await root.read('a/f.txt', { offset: 99 })).length).toBe(0);
    expect(await settleOutcome(root.read('a/f.txt', { maxBytes: 9 }))).toBe('TOO_LARGE');
    for (const range of [{ offset: -1 }, { length: -1 }, { offset: 0.5 }, { length: Number.NaN }]) {
      await expect(root.read('a/f.txt', range)).rejects.toThrow(RangeError);
    }
    const file = await root.open('a/../a/f.txt');
    expect((await file.read(4, Number.MAX_SAFE_INTEGER)).toString()).toBe('456789');
    await root.remove('a/f.txt');
    const chunks: string[] = [];
    for await (const chunk of file.chunks({ offset: 1, length: 8, chunkBytes: 3 })) chunks.push(chunk.toString());
    expect(chunks).toEqual(['123', '456', '78']);
    await file.close();
    expect(await settleOutcome(root.read('a/f.txt'))).toBe('FILE_NOT_FOUND');
    expect(await settleOutcome(root.read('a'))).toBe('IS_A_DIRECTORY');
  });

  test('links inside are followed: chains, through folders, up and down again', async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('a/b'), { recursive: true });
    writeFileSync(scene.inside('a/b/f.txt'), 'found');
    symlinkSync('a/b', scene.inside('short'));
    symlinkSync('../../short/f.txt', scene.inside('a/b/again'));
    symlinkSync('short/../b/again', scene.inside('chain'));
    const root = scene.open();
    expect((await root.read('chain')).toString()).toBe('found');
    // As the kernel would: the parent of what the link leads to, not of the link.
    expect((await root.read('short/../b/f.txt')).toString()).toBe('found');
    expect(await root.readlink('chain')).toBe('short/../b/again');
    expect((await root.stat('chain')).kind).toBe('file');
    expect((await root.stat('chain', { link: true })).kind).toBe('link');
    expect((await root.stat('short')).kind).toBe('folder');
    expect(await settleOutcome(root.readlink('a'))).toBe('NOT_A_LINK');
  });

  test('a listing has kinds, keeps its limit, and marks names that are not UTF-8', async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('folder'));
    writeFileSync(scene.inside('file'), '');
    symlinkSync('nowhere', scene.inside('link'));
    makeFifo(scene.inside('pipe'));
    writeFileSync(Buffer.concat([Buffer.from(scene.inside()), Buffer.from('/odd'), Buffer.from([0xff])]), '');
    const root = scene.open();
    const { entries, more } = await root.list('.');
    expect([...entries].sort((one, other) => (one.name < other.name ? -1 : 1))).toEqual([
      { name: 'file', kind: 'file' },
      { name: 'folder', kind: 'folder' },
      { name: 'link', kind: 'link' },
      { name: 'odd\ufffd', kind: 'file', unrepresentable: true },
      { name: 'pipe', kind: 'special' },
    ]);
    expect(more).toBe(false);
    expect(await root.list('.', { limit: 2 })).toMatchObject({ entries: { length: 2 }, more: true });
    expect((await root.list('folder')).entries).toEqual([]);
    expect(await settleOutcome(root.list('file'))).toBe('NOT_A_DIRECTORY');
  });
});

describe('W6: writing', () => {
  test('create makes a whole new file and never touches what is there', async () => {
    const scene = createSceneForTest();
    const root = scene.open();
    await root.create('a/b/new.txt', yieldPieces('one ', 'two'), { parents: true, mode: 0o640, sync: true });
    expect(readFileSync(scene.inside('a/b/new.txt'), 'utf8')).toBe('one two');
    expect(statSync(scene.inside('a/b/new.txt')).mode & 0o777).toBe(0o640 & ~process.umask());
    symlinkSync('nowhere', scene.inside('dangling'));
    for (const taken of ['a/b/new.txt', 'a/b', 'dangling', '.']) {
      expect(await settleOutcome(root.create(taken, 'x'))).toBe('EXISTS');
    }
    expect(await settleOutcome(root.create('c/new.txt', 'x'))).toBe('FILE_NOT_FOUND');
    expect(await settleOutcome(root.create('folder/', 'x', { parents: true }))).toBe('FILE_NOT_FOUND');
    expect(listNamesBelow(scene.inside())).toEqual(['a', 'a/b', 'a/b/new.txt', 'dangling']);
  });

  test('of many parallel creates of one file, one succeeds', async () => {
    const scene = createSceneForTest();
    const root = scene.open();
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, n) => settleOutcome(root.create('f', `writer ${n}`).then(() => n))),
    );
    const winners = outcomes.filter((outcome) => typeof outcome === 'number');
    expect(winners).toHaveLength(1);
    expect(readFileSync(scene.inside('f'), 'utf8')).toBe(`writer ${winners[0]}`);
    expect(listNamesBelow(scene.inside())).toEqual(['f']);
  });

  test('replace keeps the mode, leaves other names of the file alone, and follows a link inside', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'old');
    chmodSync(scene.inside('f.txt'), 0o750);
    linkSync(scene.inside('f.txt'), scene.outside('same.txt'));
    symlinkSync('f.txt', scene.inside('link'));
    const root = scene.open();
    await root.replace('link', 'new', { sync: true });
    expect(readFileSync(scene.inside('f.txt'), 'utf8')).toBe('new');
    expect(statSync(scene.inside('f.txt')).mode & 0o777).toBe(0o750);
    expect(readFileSync(scene.outside('same.txt'), 'utf8')).toBe('old');
    expect((await root.stat('link', { link: true })).kind).toBe('link');
    expect(await settleOutcome(root.replace('other.txt', 'x'))).toBe('FILE_NOT_FOUND');
    await root.replace('deep/other.txt', 'x', { create: true, parents: true });
    expect(listNamesBelow(scene.inside())).toEqual(['deep', 'deep/other.txt', 'f.txt', 'link']);
  });

  test('replace accepts only the version that was read', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'first');
    const root = scene.open();
    const { version } = await root.stat('f.txt');
    async function* slow() {
      yield Buffer.from('mine');
      // Somebody else writes while the new content is still on its way.
      writeFileSync(scene.inside('f.txt'), 'theirs');
    }
    expect(await settleOutcome(root.replace('f.txt', slow(), { version }))).toBe('CHANGED');
    expect(await settleOutcome(root.replace('f.txt', 'mine', { version }))).toBe('CHANGED');
    await root.replace('f.txt', 'mine', { version: (await root.stat('f.txt')).version });
    expect(readFileSync(scene.inside('f.txt'), 'utf8')).toBe('mine');
    expect(listNamesBelow(scene.inside())).toEqual(['f.txt']);
  });

  test('a write that fails leaves nothing behind and the old content in place', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'old');
    const root = scene.open();
    const seen: string[] = [];
    async function* failing() {
      yield Buffer.from('half');
      seen.push(...(await root.list('.')).entries.map((entry) => entry.name));
      throw new Error('the source broke');
    }
    await expect(root.replace('f.txt', failing())).rejects.toThrow('the source broke');
    await expect(root.create('g.txt', failing())).rejects.toThrow('the source broke');
    expect(await settleOutcome(root.replace('f.txt', yieldPieces('123', '456'), { maxBytes: 5 }))).toBe('TOO_LARGE');
    expect(await settleOutcome(root.create('g.txt', '123456', { maxBytes: 5 }))).toBe('TOO_LARGE');
    expect(seen.filter(isTemporaryName)).toHaveLength(2);
    expect(listNamesBelow(scene.inside())).toEqual(['f.txt']);
    expect(readFileSync(scene.inside('f.txt'), 'utf8')).toBe('old');
  });

  test('readers see the old or the new content, never a part', async () => {
    const scene = createSceneForTest();
    const root = scene.open();
    const contents = ['a', 'b'].map((letter) => letter.repeat(300_000));
    await root.create('f', contents[0] as string);
    let writing = true;
    const writer = (async () => {
      for (let n = 1; n < 60; n++) await root.replace('f', contents[n % 2] as string);
      writing = false;
    })();
    const seen = new Set<string>();
    do seen.add((await root.read('f')).toString());
    while (writing);
    await writer;
    expect([...seen].filter((content) => !contents.includes(content))).toEqual([]);
  });

  test.runIf(process.getuid?.() === 0)('replace keeps the owner, where it may', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'old');
    chownSync(scene.inside('f.txt'), 1500, 1501);
    await scene.open().replace('f.txt', 'new');
    expect(statSync(scene.inside('f.txt'))).toMatchObject({ uid: 1500, gid: 1501 });
  });
});

describe('moving and removing', () => {
  test('rename does not replace unless asked', async () => {
    const scene = createSceneForTest();
    for (const name of ['one', 'two']) writeFileSync(scene.inside(name), name);
    mkdirSync(scene.inside('folder/inner'), { recursive: true });
    mkdirSync(scene.inside('empty'));
    const root = scene.open();
    for (const [from, to] of [
      ['one', 'two'],
      ['one', 'empty'],
      ['folder', 'empty'],
      ['folder', 'one'],
      ['one', 'one'],
    ] as const) {
      expect(await settleOutcome(root.rename(from, to)), `${from} → ${to}`).toBe('EXISTS');
    }
    expect(await settleOutcome(root.rename('folder', 'folder/inner/deeper'))).toBe('INTO_ITSELF');
    expect(await settleOutcome(root.rename('one', 'empty', { overwrite: true }))).toBe('IS_A_DIRECTORY');
    expect(await settleOutcome(root.rename('empty', 'folder', { overwrite: true }))).toBe('NOT_EMPTY');
    expect(await settleOutcome(root.rename('.', 'elsewhere'))).toBe('PATH_VIOLATION');
    await expect(root.rename('one', 'missing/one')).rejects.toThrow('"missing/one" does not exist');
    await expect(root.rename('missing', 'one/two')).rejects.toThrow('"missing" does not exist');
    expect(listNamesBelow(scene.inside())).toEqual(['empty', 'folder', 'folder/inner', 'one', 'two']);
    await root.rename('one', 'a/b/one', { parents: true });
    await root.rename('folder', 'moved/');
    await root.rename('two', 'a/b/one', { overwrite: true });
    expect(readFileSync(scene.inside('a/b/one'), 'utf8')).toBe('two');
    expect(listNamesBelow(scene.inside())).toEqual(['a', 'a/b', 'a/b/one', 'empty', 'moved', 'moved/inner']);
  });

  test('rename moves a link itself and a pipe unopened; of two names of one file, one stays', async () => {
    const scene = createSceneForTest();
    symlinkSync(scene.outside('f.txt'), scene.inside('out'));
    makeFifo(scene.inside('pipe'));
    writeFileSync(scene.inside('f'), 'f');
    linkSync(scene.inside('f'), scene.inside('g'));
    const root = scene.open();
    await root.rename('out', 'still-out');
    await root.rename('pipe', 'tube');
    await root.rename('f', 'g', { overwrite: true });
    await root.rename('g', 'g', { overwrite: true });
    expect(listNamesBelow(scene.inside())).toEqual(['g', 'still-out', 'tube']);
    expect(await settleOutcome(root.read('still-out'))).toBe('PATH_VIOLATION');
  });

  test('mkdir makes one folder, or all that are missing', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('file'), '');
    const root = scene.open();
    expect(await settleOutcome(root.mkdir('a/b'))).toBe('FILE_NOT_FOUND');
    await root.mkdir('a/');
    expect(await settleOutcome(root.mkdir('a'))).toBe('EXISTS');
    await root.mkdir('a/b/../c/d', { parents: true });
    await root.mkdir('a', { parents: true });
    expect(await settleOutcome(root.mkdir('file', { parents: true }))).toBe('EXISTS');
    expect(await settleOutcome(root.mkdir('file/x', { parents: true }))).toBe('NOT_A_DIRECTORY');
    expect(listNamesBelow(scene.inside())).toEqual(['a', 'a/b', 'a/c', 'a/c/d', 'file']);
  });

  test('remove takes one entry, removeTree a whole tree, and neither follows links', async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('tree/sub/deep'), { recursive: true });
    for (const name of ['f', 'tree/f', 'tree/sub/deep/f']) writeFileSync(scene.inside(name), '');
    writeFileSync(Buffer.concat([Buffer.from(scene.inside('tree/sub/odd')), Buffer.from([0xfe])]), '');
    makeFifo(scene.inside('tree/pipe'));
    symlinkSync(scene.outside(), scene.inside('tree/out'));
    symlinkSync('../f', scene.inside('tree/in'));
    symlinkSync(scene.outside(), scene.inside('out'));
    const before = takeSnapshot(scene.outside());
    const root = scene.open();
    expect(await settleOutcome(root.remove('tree'))).toBe('NOT_EMPTY');
    expect(await settleOutcome(root.remove('.'))).toBe('PATH_VIOLATION');
    expect(await settleOutcome(root.removeTree('tree/..'))).toBe('PATH_VIOLATION');
    const whole = listNamesBelow(scene.inside());
    expect(await settleOutcome(root.removeTree('tree', { maxEntries: 7 }))).toBe('TOO_MANY_ENTRIES');
    expect(listNamesBelow(scene.inside())).toEqual(whole);
    await root.remove('out');
    await root.removeTree('tree', { maxEntries: 8 });
    expect(listNamesBelow(scene.inside())).toEqual(['f']);
    await root.removeTree('f');
    expect(listNamesBelow(scene.inside())).toEqual([]);
    expect(takeSnapshot(scene.outside())).toEqual(before);
  });
});

const operations = counts(2000, 10_000);

describe('handles', () => {
  test(`${operations} operations, half of them failing, leave none open`, async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('a/b'), { recursive: true });
    writeFileSync(scene.inside('a/b/f'), 'f');
    symlinkSync('../../..', scene.inside('a/b/out'));
    symlinkSync('loop', scene.inside('loop'));
    makeFifo(scene.inside('a/pipe'));
    const root = scene.open();
    const works: (() => Promise<unknown>)[] = [
      () => root.stat('a/b/f'),
      () => root.stat('a/b/out/x'),
      () => root.read('a/b/f'),
      () => root.read('a/pipe'),
      () => root.readlink('loop'),
      () => root.stat('loop'),
      () => root.list('a/b', { limit: 1 }),
      () => root.list('a/b/f'),
      () => root.mkdir('a/b', { parents: true }),
      () => root.mkdir('a/b/f/x', { parents: true }),
      () => root.rename('a/b/f', 'a/b/f', { overwrite: true }),
      () => root.rename('a/b/f', 'a/b/out/f'),
      () => root.remove('a/b/nothing'),
      () => root.removeTree('a'.repeat(300)),
      () => root.create('a/b/f', 'x'),
    ];
    const before = countDescriptors();
    const outcomes = new Map<string, number>();
    for (let n = 0; n < operations; n++) {
      const outcome = await settleOutcome((works[n % works.length] as () => Promise<unknown>)());
      const sort = typeof outcome === 'string' && /^[A-Z_]{4,}$/.test(outcome) ? 'refused' : 'done';
      outcomes.set(sort, (outcomes.get(sort) ?? 0) + 1);
    }
    await expectNoMoreDescriptors(before);
    expect(outcomes.get('refused')).toBeGreaterThan(0.4 * operations);
    expect(outcomes.get('done')).toBeGreaterThan(0.4 * operations);
  });

  test('a closed root finishes running operations and starts no new ones', async () => {
    const scene = createSceneForTest();
    const before = countDescriptors();
    const root = scene.open();
    const writing = root.create('f', yieldPieces('slow', 'ly'));
    root.close();
    root.close();
    await writing;
    expect(readFileSync(scene.inside('f'), 'utf8')).toBe('slowly');
    expect(await settleOutcome(root.stat('f'))).toBe('CLOSED');
    await expectNoMoreDescriptors(before);
  });

  test('the root stays the same folder when its path leads elsewhere', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f.txt'), 'mine');
    const root = scene.open();
    await import('node:fs/promises').then((fs) => fs.rename(scene.inside(), join(scene.base, 'moved')));
    symlinkSync(scene.outside(), scene.inside().replace(/\/$/, ''));
    expect((await root.read('f.txt')).toString()).toBe('mine');
  });
});
