import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { gitOfSuites, type Isolation, nameOf, readFiles, type SceneOptions, useScenes, writeFiles } from './scene.ts';

/** What holds of a folder of a session's own, however it is made. */
export function describeFolders(isolation: Isolation): void {
  describe(`a folder of its own by ${isolation}`, () => {
    // Here, not above: several files that share a process load this module once.
    const openScene = useScenes();
    const opened = (how: Isolation, options: SceneOptions = {}) => openScene(how, { git: gitOfSuites, ...options });

    test('holds what the workspace holds, and is where it was said to be', async () => {
      const { folders, session, workspace } = await opened(isolation);
      const said = folders.path(session('one'));
      const folder = (await folders.folderFor(session('one'))) as string;
      expect(folder).toBe(said);
      expect(folder).not.toBe(workspace);
      expect(readFiles(folder)).toEqual(readFiles(workspace));
      expect(folders.hasOwnFolder(session('one'))).toBe(true);
      expect((await folders.diff(nameOf('one'))).files).toEqual([]);
    });

    test('is made once for many concurrent requests, in several processes too', async () => {
      const { folders, another, session, said } = await opened(isolation);
      const others = await Promise.all([another(), another()]);
      const asked = [folders, ...others].flatMap((each) =>
        Array.from({ length: 4 }, () => each.folderFor(session('one'))),
      );
      expect(new Set(await Promise.all(asked)).size).toBe(1);
      expect(said.filter((line) => line.startsWith('session folder created'))).toHaveLength(1);
    });

    test('a diff tells all that was changed, and git can apply it', async () => {
      const { folders, session, git, workspace } = await opened(isolation, {
        files: { 'readme.md': 'one\ntwo\nthree\n', 'src/a.js': 'let a = 1;\n', 'gone.txt': 'x\n', 'run.sh': 'true\n' },
      });
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFiles(folder, {
        'readme.md': 'one\n2\nthree\n',
        'deep/er/new.txt': 'new\n',
        'odd "name"\n-x': 'odd',
        '-rf': '-\n',
      });
      writeFileSync(join(folder, 'image'), Buffer.from([0, 1, 2, 255]));
      rmSync(join(folder, 'gone.txt'));
      chmodSync(join(folder, 'run.sh'), 0o755);
      symlinkSync('readme.md', join(folder, 'link'));
      const { files, patch } = await folders.diff(nameOf('one'));
      expect(files.map(({ path, status, binary, added, removed }) => [path, status, binary, added, removed])).toEqual([
        ['-rf', 'added', false, 1, 0],
        ['deep/er/new.txt', 'added', false, 1, 0],
        ['gone.txt', 'deleted', false, 0, 1],
        ['image', 'added', true, null, null],
        ['link', 'added', false, 1, 0],
        ['odd "name"\n-x', 'added', false, 1, 0],
        ['readme.md', 'modified', false, 1, 1],
        ['run.sh', 'modified', false, 0, 0],
      ]);
      expect(files.at(-1)).toMatchObject({ oldMode: '100644', newMode: '100755' });
      const only = async (path: string) => (await folders.diff(nameOf('one'), path)).files.map((file) => file.path);
      expect([await only('readme.md'), await only('deep'), await only('dee')]).toEqual([
        ['readme.md'],
        ['deep/er/new.txt'],
        [],
      ]);
      const text = patch.replace(/diff --git a\/image[\s\S]*?(?=diff --git)/, '');
      writeFileSync(join(workspace, '..', 'patch'), text);
      git('apply', join(workspace, '..', 'patch'));
      rmSync(join(folder, 'image'));
      expect(readFiles(workspace)).toEqual(readFiles(folder));
      expect(statSync(join(workspace, 'run.sh')).mode & 0o100).toBe(0o100);
      // However it got there: what the workspace holds is merged.
      expect((await folders.merge(nameOf('one'), {})).files.every(({ outcome }) => outcome === 'already')).toBe(true);
    });

    test('a merge brings all of it, and the next one only what came after', async () => {
      const { folders, session, workspace } = await opened(isolation);
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFiles(folder, { 'readme.md': 'one\ntwo\n3\n', 'new/file': 'n\n' });
      rmSync(join(folder, 'src/a.js'));
      const { fits, files } = await folders.merge(nameOf('one'), {});
      expect(fits).toBe(true);
      expect(files).toEqual([
        { path: 'new/file', change: 'added', outcome: 'taken' },
        { path: 'readme.md', change: 'modified', outcome: 'taken' },
        { path: 'src/a.js', change: 'deleted', outcome: 'taken' },
      ]);
      expect(readFiles(workspace)).toEqual(readFiles(folder));
      expect(existsSync(join(workspace, 'src'))).toBe(false);
      expect((await folders.diff(nameOf('one'))).files).toEqual([]);
      writeFileSync(join(folder, 'readme.md'), 'one\ntwo\n3\nfour\n');
      // Changed here and there since the last merge, in different places.
      writeFileSync(join(workspace, 'readme.md'), 'eins\ntwo\n3\n');
      expect((await folders.diff(nameOf('one'))).files).toMatchObject([{ path: 'readme.md', added: 1, removed: 0 }]);
      expect((await folders.merge(nameOf('one'), {})).files).toMatchObject([{ path: 'readme.md', outcome: 'merged' }]);
      expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('eins\ntwo\n3\nfour\n');
    });

    test('where anything conflicts nothing is changed, and each file is named', async () => {
      const { folders, session, workspace } = await opened(isolation, {
        files: { 'a.txt': 'a\n', 'b.txt': 'b\n', 'c.txt': 'c\n', 'd/e.txt': 'd\n' },
      });
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFiles(folder, {
        'a.txt': 'session\n',
        'c.txt': 'session\n',
        'fine.txt': 'f\n',
        'both.txt': '1\n',
        'd/new.txt': '',
      });
      rmSync(join(folder, 'b.txt'));
      writeFiles(workspace, { 'a.txt': 'workspace\n', 'b.txt': 'workspace\n', 'both.txt': '2\n' });
      rmSync(join(workspace, 'c.txt'));
      rmSync(join(workspace, 'd'), { recursive: true });
      writeFileSync(join(workspace, 'd'), 'a file now\n');
      const before = readFiles(workspace);
      const merge = await folders.merge(nameOf('one'), {});
      expect(merge.fits).toBe(false);
      expect(merge.files.map(({ path, outcome, reason }) => [path, outcome, reason])).toEqual([
        ['a.txt', 'conflict', 'changed in the session and in the workspace, in the same place'],
        ['b.txt', 'conflict', 'deleted in the session, changed in the workspace'],
        ['both.txt', 'conflict', 'added in the session and in the workspace, differently'],
        ['c.txt', 'conflict', 'changed in the session, deleted in the workspace'],
        ['d/new.txt', 'conflict', 'in the workspace, "d" is a file and not a folder'],
        ['fine.txt', 'taken', undefined],
      ]);
      expect(readFiles(workspace)).toEqual(before);
      expect((await folders.diff(nameOf('one'))).files).toHaveLength(6);
    });

    test('a person may choose whose version wins; a dry run says what would be done', async () => {
      const { folders, session, workspace } = await opened(isolation, { files: { 'a.txt': 'a\n', 'b.txt': 'b\n' } });
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFiles(folder, { 'a.txt': 'session\n', 'b.txt': 'session\n' });
      writeFiles(workspace, { 'a.txt': 'workspace\n' });
      expect((await folders.merge(nameOf('one'), { dryRun: true })).fits).toBe(false);
      const asked = await folders.merge(nameOf('one'), { dryRun: true, prefer: 'workspace' });
      expect(asked.files.map(({ outcome }) => outcome)).toEqual(['left', 'taken']);
      expect(readFiles(workspace)).toEqual({ 'a.txt': 'workspace\n', 'b.txt': 'b\n' });
      await folders.merge(nameOf('one'), { prefer: 'workspace' });
      expect(readFiles(workspace)).toEqual({ 'a.txt': 'workspace\n', 'b.txt': 'session\n' });
      expect((await folders.diff(nameOf('one'))).files).toEqual([]);
      writeFiles(folder, { 'a.txt': 'session again\n' });
      await folders.merge(nameOf('one'), { prefer: 'session' });
      expect(readFiles(workspace)).toEqual({ 'a.txt': 'session again\n', 'b.txt': 'session\n' });
    });

    test('W12: a merge of what was seen takes nothing that the session changed since', async () => {
      const { folders, session, workspace } = await opened(isolation, {
        files: { 'a.txt': 'a\n', 'run.sh': 'true\n' },
      });
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFiles(folder, { 'm.js': 'good\n' });
      symlinkSync('a.txt', join(folder, 'link'));
      const read = async () => (await folders.diff(nameOf('one'))).changesHash;
      const changesHash = await read();
      const dry = await folders.merge(nameOf('one'), { dryRun: true, changesHash });
      expect([dry.changesHash, await read()]).toEqual([changesHash, changesHash]);

      const before = readFiles(workspace);
      const attacks: readonly (readonly [() => void, () => void])[] = [
        [() => writeFiles(folder, { 'm.js': 'EVIL\n' }), () => writeFiles(folder, { 'm.js': 'good\n' })],
        [() => writeFiles(folder, { 'n.js': 'EVIL\n' }), () => rmSync(join(folder, 'n.js'))],
        [() => rmSync(join(folder, 'a.txt')), () => writeFiles(folder, { 'a.txt': 'a\n' })],
        [() => rmSync(join(folder, 'm.js')), () => writeFiles(folder, { 'm.js': 'good\n' })],
        [() => chmodSync(join(folder, 'm.js'), 0o755), () => chmodSync(join(folder, 'm.js'), 0o644)],
        [
          () => {
            rmSync(join(folder, 'link'));
            symlinkSync('m.js', join(folder, 'link'));
          },
          () => {
            rmSync(join(folder, 'link'));
            symlinkSync('a.txt', join(folder, 'link'));
          },
        ],
      ];
      for (const [attack, undo] of attacks) {
        attack();
        for (const dryRun of [true, false]) {
          const merge = folders.merge(nameOf('one'), { changesHash, dryRun, prefer: 'session' });
          await expect(merge).rejects.toMatchObject({ code: 'FILE_CHANGED' });
        }
        expect(readFiles(workspace)).toEqual(before);
        undo();
      }
      // The same changes are the ones that were seen, whenever they were written.
      expect((await folders.merge(nameOf('one'), { changesHash })).changesHash).toBe(changesHash);
      expect(readFileSync(join(workspace, 'm.js'), 'utf8')).toBe('good\n');
    });

    test('a file in place of a folder, and a folder in place of a file, can be merged', async () => {
      const { folders, session, workspace } = await opened(isolation, { files: { 'f/one': '1\n', g: 'g\n' } });
      const folder = (await folders.folderFor(session('one'))) as string;
      for (const path of ['f', 'g']) rmSync(join(folder, path), { recursive: true });
      writeFiles(folder, { f: 'a file\n', 'g/in': 'in\n' });
      expect((await folders.merge(nameOf('one'), {})).fits).toBe(true);
      expect(readFiles(workspace)).toEqual({ f: 'a file\n', 'g/in': 'in\n' });
    });

    test('is removed with its session when all is merged, and kept otherwise', async () => {
      const { folders, session, workspace, dataDir, git, said } = await opened(isolation);
      const [one, two] = (await Promise.all(['one', 'two'].map((id) => folders.folderFor(session(id, id))))) as [
        string,
        string,
      ];
      writeFiles(two, { 'mine.txt': 'kept\n' });
      await Promise.all([folders.ended(nameOf('one').sessionId), folders.ended(nameOf('two').sessionId)]);
      expect([existsSync(one), existsSync(two)]).toEqual([false, true]);
      expect(readdirSync(join(dataDir, 'folders')).filter((each) => !each.startsWith('.'))).toEqual([
        nameOf('two').sessionId,
      ]);
      expect(said.filter((line) => line.startsWith('session folder kept'))).toHaveLength(1);
      // By its name, its id or a prefix of it, though nobody knows the session any more.
      for (const reference of ['two', nameOf('two').sessionId, nameOf('two').sessionId.slice(0, 6)]) {
        expect(folders.find(reference)).toEqual([nameOf('two')]);
      }
      await folders.merge(nameOf('two'), {});
      expect(readFileSync(join(workspace, 'mine.txt'), 'utf8')).toBe('kept\n');
      expect(existsSync(two)).toBe(false);
      expect(readdirSync(join(dataDir, 'folders')).filter((each) => !each.startsWith('.'))).toEqual([]);
      if (isolation === 'worktree') {
        expect(git('branch', '--list', '--format=%(refname:short)').trim()).toBe('main');
        expect(git('worktree', 'list').trim().split('\n')).toHaveLength(1);
      }
    });

    test.each([
      ['keep', true],
      ['remove', false],
    ] as const)('with onEnd "%s" it stays: %s', async (onEnd, stays) => {
      const { folders, session } = await opened(isolation, { onEnd });
      const folder = (await folders.folderFor(session('one'))) as string;
      if (!stays) writeFiles(folder, { 'unmerged.txt': '' });
      await folders.ended(nameOf('one').sessionId);
      expect(existsSync(folder)).toBe(stays);
      if (stays) await folders.discard(nameOf('one'));
      expect(existsSync(folder)).toBe(false);
    });

    test('a file whose name is not UTF-8 keeps the folder, because it cannot be merged', async () => {
      const { folders, session } = await opened(isolation);
      const folder = (await folders.folderFor(session('one'))) as string;
      writeFileSync(Buffer.concat([Buffer.from(`${folder}/r`), Buffer.from([0xe9])]), 'work of the session');
      expect(await folders.diff(nameOf('one'))).toMatchObject({ files: [], unnamed: 1 });
      await folders.ended(nameOf('one').sessionId);
      expect(existsSync(folder)).toBe(true);
      await folders.discard(nameOf('one'));
      expect(existsSync(folder)).toBe(false);
    });

    test('those whose sessions went while nobody looked are swept; live ones and kept ones stay', async () => {
      const { folders, another, session } = await opened(isolation);
      const [live, gone, changed] = (await Promise.all(
        ['live', 'gone', 'changed'].map((id) => folders.folderFor(session(id))),
      )) as [string, string, string];
      writeFiles(changed, { 'unmerged.txt': '' });
      const isLive = async (id: string) => id.startsWith('live');
      for (const each of [await another(), await another()]) await each.sweep(isLive);
      expect([live, gone, changed].map((folder) => existsSync(folder))).toEqual([true, false, true]);
    });
  });
}
