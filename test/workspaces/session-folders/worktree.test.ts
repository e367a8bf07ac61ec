import { existsSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { contents, gitOfSuites, type Isolation, put, type Scene, type SceneOptions, scenesOfFile } from './scene.ts';

const openScene = scenesOfFile();
const opened = (how: Isolation | 'shared', options: SceneOptions = {}) =>
  openScene(how, { git: gitOfSuites, ...options });

const name = (id: string) => ({ sessionId: id.padEnd(16, '0'), workspaceId: 'repo' });

test('a shared workspace is the folder of all its sessions', async () => {
  const { folders, session, workspace } = await opened('shared');
  expect(await folders.folderFor(session('one'))).toBe(workspace);
  expect(folders.path(session('one'))).toBe(workspace);
  expect(folders.isApart(session('one'))).toBe(false);
  await expect(folders.diff(name('one'))).rejects.toThrow('no folder of its own');
});

describe('a worktree', () => {
  test('has a branch named after the session, and git works there', async () => {
    const { folders, session, git } = await opened('worktree');
    const folder = (await folders.folderFor(session('one', 'task#049'))) as string;
    const again = (await folders.folderFor(session('two', 'task#049'))) as string;
    expect(git('-C', folder, 'status', '--short', '--branch').trim()).toBe('## ambit/task-049');
    expect(git('-C', again, 'branch', '--show-current').trim()).toBe('ambit/task-049-two00000');
  });

  test('commits of the session stay on its branch, and are part of its diff', async () => {
    const { folders, session, git } = await opened('worktree');
    const folder = (await folders.folderFor(session('one', 'one'))) as string;
    put(folder, { 'committed.txt': 'c\n' });
    git('-C', folder, 'add', '--all');
    git('-C', folder, 'commit', '--quiet', '--message=work');
    expect((await folders.diff(name('one'))).files).toMatchObject([{ path: 'committed.txt', status: 'added' }]);
    await folders.merge(name('one'), {});
    await folders.ended(name('one').sessionId);
    expect(existsSync(folder)).toBe(false);
    expect(git('log', '-1', '--format=%s', 'ambit/one').trim()).toBe('work');
  });

  test('starts from the last commit, and says when that is not all there is', async () => {
    const { folders, session, workspace, said } = await opened('worktree');
    await folders.folderFor(session('clean'));
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(false);
    put(workspace, { 'readme.md': 'not committed\n' });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(readFileSync(join(folder, 'readme.md'), 'utf8')).toBe('one\ntwo\nthree\n');
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(true);
    expect((await folders.diff(name('one'))).uncommitted).toBe(true);
    put(folder, { 'readme.md': 'mine\n' });
    expect((await folders.merge(name('one'), {})).fits).toBe(false);
    expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('not committed\n');
  });

  test('a change that is as long as what it replaces, and as old as the commit, is no less one', async () => {
    const { folders, session, workspace, said, git } = await opened('worktree');
    const [file, index] = [join(workspace, 'readme.md'), join(workspace, '.git/index')];
    const secondOf = (path: string) => Math.floor(statSync(path).ctimeMs / 1000);
    const [old, stamps] = [1_700_000_000, new Set<number>()];
    // Git tells times apart by the second. Both changes have to be made in the same one, or it would know by that.
    for (let round = 0; stamps.size !== 1; round++) {
      stamps.clear();
      put(workspace, { 'readme.md': `four\nfive\n six ${round}\n` });
      utimesSync(file, old, old);
      stamps.add(secondOf(file));
      git('commit', '--quiet', '--all', '--message=more');
      put(workspace, { 'readme.md': `five\nfour\n six ${round}\n` });
      utimesSync(file, old, old);
      stamps.add(secondOf(file));
    }
    utimesSync(index, old, old);
    await folders.folderFor(session('one'));
    expect(said.some((line) => line.startsWith('uncommitted'))).toBe(true);
  });

  test('what git ignores is neither shown nor merged', async () => {
    const { folders, session, workspace } = await opened('worktree');
    const folder = (await folders.folderFor(session('one'))) as string;
    put(folder, { 'out/built.js': 'x', 'out/deep/built.js': 'x', 'seen.txt': '' });
    expect((await folders.diff(name('one'))).files.map(({ path }) => path)).toEqual(['seen.txt']);
    await folders.merge(name('one'), {});
    expect(existsSync(join(workspace, 'out'))).toBe(false);
  });

  test('of a part of a repository shows that part only', async () => {
    const { folders, session, workspace } = await opened('worktree', { part: 'packages/a' });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(folder.endsWith('/packages/a')).toBe(true);
    expect(contents(folder)).toEqual(contents(workspace));
    put(folder, { 'readme.md': 'one\n2\nthree\n', 'out/ignored': '' });
    put(folder, { '../b/beyond.txt': '' });
    const { files } = await folders.diff(name('one'));
    expect(files).toMatchObject([{ path: 'readme.md', added: 1, removed: 1, binary: false }]);
    put(workspace, { 'readme.md': 'eins\ntwo\nthree\n' });
    expect((await folders.merge(name('one'), {})).fits).toBe(false);
    put(workspace, { 'readme.md': 'one\ntwo\nthree\nvier\n' });
    expect((await folders.merge(name('one'), {})).files).toMatchObject([{ path: 'readme.md', outcome: 'merged' }]);
    expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('one\n2\nthree\nvier\n');
  });

  test.each([
    ['lies in no git repository', (at: Scene) => rmSync(join(at.workspace, '.git'), { recursive: true })],
    ['has no commit yet', undefined],
  ] as const)('is refused where the workspace %s, with what to do', async (why, prepare) => {
    const made = await opened('worktree', { commit: prepare !== undefined });
    prepare?.(made);
    const refusal = made.folders.folderFor(made.session('one'));
    await expect(refusal).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    await expect(refusal).rejects.toThrow(why);
    await expect(refusal).rejects.not.toThrow(made.folder);
    expect(existsSync(join(made.dataDir, 'folders', name('one').sessionId, 'repo'))).toBe(false);
  });

  test('keeps the line ends that the attributes ask for, before and after', async () => {
    const { folders, session } = await opened('worktree', {
      files: { '.gitattributes': '*.bat eol=crlf\n', 'run.bat': 'one\ntwo\n' },
    });
    const folder = (await folders.folderFor(session('one'))) as string;
    expect(readFileSync(join(folder, 'run.bat'), 'utf8')).toBe('one\r\ntwo\r\n');
    put(folder, { 'run.bat': 'one\r\n2\r\n' });
    expect((await folders.diff(name('one'))).files).toMatchObject([{ path: 'run.bat', added: 1, removed: 1 }]);
  });
});
