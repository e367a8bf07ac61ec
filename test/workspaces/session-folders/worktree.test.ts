import { existsSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  gitOfSuites,
  type Isolation,
  nameOf,
  readFiles,
  type Scene,
  type SceneOptions,
  useScenes,
  writeFiles,
} from './scene.ts';

const openScene = useScenes();
const openWithGit = (how: Isolation | 'shared', options: SceneOptions = {}) =>
  openScene(how, { git: gitOfSuites, ...options });

test('a shared workspace is the folder of all its sessions', async () => {
  const { folders, session, workspace } = await openWithGit('shared');
  expect(await folders.folderFor(session('one'))).toBe(workspace);
  expect(folders.path(session('one'))).toBe(workspace);
  expect(folders.hasOwnFolder(session('one'))).toBe(false);
  await expect(folders.diff(nameOf('one'))).rejects.toThrow('no folder of its own');
});

describe('a worktree', () => {
  test('has a branch named after the session, and git works there', async () => {
    const { folders, session, git } = await openWithGit('worktree');
    const folder = (await folders.folderFor(session('one', 'task#049'))) as string;
    const again = (await folders.folderFor(session('two', 'task#049'))) as string;
    expect(git('-C', folder, 'status', '--short', '--branch').trim()).toBe('## ambit/task-049');
    expect(git('-C', again, 'branch', '--show-current').trim()).toBe('ambit/task-049-two00000');
  });

  test('W12: a session that writes while a diff or a merge is made has nothing merged that was not shown', async () => {
    let write = () => {};
    const { folders, session, workspace } = await openScene('worktree', {
      files: { 'a.txt': 'a\n' },
      async git(...args) {
        const answer = await gitOfSuites(...args);
        // The originals are fetched between the comparison and the reading of the files.
        if (args[1].includes('checkout-index')) write();
        return answer;
      },
    });
    const folder = (await folders.folderFor(session('one'))) as string;
    const writes = (text: string) => writeFiles(folder, { 'a.txt': text });
    writes('EVIL\n');
    write = () => writes('good\n');
    const shown = await folders.diff(nameOf('one'));
    expect(shown.patch).toContain('+good');
    write = () => {};
    for (const text of ['EVIL\n', 'good\n']) {
      writes(text);
      const merge = folders.merge(nameOf('one'), { changesHash: shown.changesHash });
      await expect(merge).rejects.toMatchObject({ code: 'FILE_CHANGED' });
    }
    const { changesHash } = await folders.diff(nameOf('one'));
    write = () => writes('EVIL\n');
    await expect(folders.merge(nameOf('one'), { changesHash })).rejects.toMatchObject({ code: 'FILE_CHANGED' });
    expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe('a\n');
  });

  test('commits of the session stay on its branch, and are part of its diff', async () => {
    const { folders, session, git } = await openWithGit('worktree');
    const folder = (await folders.folderFor(session('one', 'one'))) as string;
    writeFiles(folder, { 'committed.txt': 'c\n' });
    git('-C', folder, 'add', '--all');
    git('-C', folder, 'commit', '--quiet', '--message=work');
    expect((await folders.diff(nameOf('one'))).files).toMatchObject([{ path: 'committed.txt', status: 'added' }]);
    await folders.merge(nameOf('one'), {});
    await folders.ended(nameOf('one').sessionId);
    expect(existsSync(folder)).toBe(false);
    expect(git('log', '-1', '--format=%s', 'ambit/one').trim()).toBe('work');
  });

  test('starts from the last commit, and says when that is not all there is', async () => {
    const { folders, session, workspace, said } = await openWithGit('worktree');
    await folders.folderFor(session('clean'));
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(false);
    writeFiles(workspace, { 'readme.md': 'not committed\n' });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(readFileSync(join(folder, 'readme.md'), 'utf8')).toBe('one\ntwo\nthree\n');
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(true);
    expect((await folders.diff(nameOf('one'))).uncommitted).toBe(true);
    writeFiles(folder, { 'readme.md': 'mine\n' });
    expect((await folders.merge(nameOf('one'), {})).fits).toBe(false);
    expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('not committed\n');
  });

  test('a change of the same length and time as the original is found', async () => {
    const { folders, session, workspace, said, git } = await openWithGit('worktree');
    const [file, index] = [join(workspace, 'readme.md'), join(workspace, '.git/index')];
    const secondOf = (path: string) => Math.floor(statSync(path).ctimeMs / 1000);
    const [old, stamps] = [1_700_000_000, new Set<number>()];
    // Git tells times apart by the second. Both changes have to be made in the same one, or it would know by that.
    for (let round = 0; stamps.size !== 1; round++) {
      stamps.clear();
      writeFiles(workspace, { 'readme.md': `four\nfive\n six ${round}\n` });
      utimesSync(file, old, old);
      stamps.add(secondOf(file));
      git('commit', '--quiet', '--all', '--message=more');
      writeFiles(workspace, { 'readme.md': `five\nfour\n six ${round}\n` });
      utimesSync(file, old, old);
      stamps.add(secondOf(file));
    }
    utimesSync(index, old, old);
    await folders.folderFor(session('one'));
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(true);
  });

  test('what git ignores is neither shown nor merged', async () => {
    const { folders, session, workspace } = await openWithGit('worktree');
    const folder = (await folders.folderFor(session('one'))) as string;
    writeFiles(folder, { 'out/built.js': 'x', 'out/deep/built.js': 'x', 'seen.txt': '' });
    expect((await folders.diff(nameOf('one'))).files.map(({ path }) => path)).toEqual(['seen.txt']);
    await folders.merge(nameOf('one'), {});
    expect(existsSync(join(workspace, 'out'))).toBe(false);
  });

  test('of a part of a repository shows that part only', async () => {
    const { folders, session, workspace } = await openWithGit('worktree', { part: 'packages/a' });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(folder.endsWith('/packages/a')).toBe(true);
    expect(readFiles(folder)).toEqual(readFiles(workspace));
    writeFiles(folder, { 'readme.md': 'one\n2\nthree\n', 'out/ignored': '' });
    writeFiles(folder, { '../b/beyond.txt': '' });
    const { files } = await folders.diff(nameOf('one'));
    expect(files).toMatchObject([{ path: 'readme.md', added: 1, removed: 1, binary: false }]);
    writeFiles(workspace, { 'readme.md': 'eins\ntwo\nthree\n' });
    expect((await folders.merge(nameOf('one'), {})).fits).toBe(false);
    writeFiles(workspace, { 'readme.md': 'one\ntwo\nthree\nvier\n' });
    expect((await folders.merge(nameOf('one'), {})).files).toMatchObject([{ path: 'readme.md', outcome: 'merged' }]);
    expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('one\n2\nthree\nvier\n');
  });

  test.each([
    ['is not in a git repository', (at: Scene) => rmSync(join(at.workspace, '.git'), { recursive: true })],
    ['has no commit yet', undefined],
  ] as const)('is refused where the workspace %s, with what to do', async (why, prepare) => {
    const made = await openWithGit('worktree', { commit: prepare !== undefined });
    prepare?.(made);
    const refusal = made.folders.folderFor(made.session('one'));
    await expect(refusal).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    await expect(refusal).rejects.toThrow(why);
    await expect(refusal).rejects.not.toThrow(made.folder);
    expect(existsSync(join(made.dataDir, 'folders', nameOf('one').sessionId, 'repo'))).toBe(false);
  });

  test('keeps the line ends that the attributes ask for, before and after', async () => {
    const { folders, session } = await openWithGit('worktree', {
      files: { '.gitattributes': '*.bat eol=crlf\n', 'run.bat': 'one\ntwo\n' },
    });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(readFileSync(join(folder, 'run.bat'), 'utf8')).toBe('one\r\ntwo\r\n');
    writeFiles(folder, { 'run.bat': 'one\r\n2\r\n' });
    expect((await folders.diff(nameOf('one'))).files).toMatchObject([{ path: 'run.bat', added: 1, removed: 1 }]);
  });
});
