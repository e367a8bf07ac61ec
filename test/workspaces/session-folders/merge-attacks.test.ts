import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { countDescriptors, expectNoMoreDescriptors } from '../saferoot/scene.ts';
import { nameOf, readFiles, useScenes, writeFiles } from './scene.ts';

const opened = useScenes();

test('a workspace that is gone costs no descriptors, however often a merge is tried', async () => {
  const at = await opened('copy');
  const folder = (await at.folders.folderFor(at.session('one'))) as string;
  writeFiles(folder, { 'new.txt': 'n\n' });
  rmSync(at.workspace, { recursive: true });
  const tried = () => at.folders.merge(nameOf('one'), {}).catch(() => 'failed');
  expect(await tried()).toBe('failed');
  const before = countDescriptors();
  for (let times = 0; times < 3; times++) expect(await tried()).toBe('failed');
  await expectNoMoreDescriptors(before);
});

describe.each(['worktree', 'copy'] as const)('what a session must not bring in by a merge (%s)', (isolation) => {
  test('S4: files that are closed to sessions, or that git would run, are refused, the rest is merged', async () => {
    const at = await opened(isolation);
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    for (const order of [
      ['init', '--quiet'],
      ['config', 'core.hooksPath', 'hooks'],
    ]) {
      execFileSync('git', ['-C', at.workspace, ...order]);
    }
    writeFiles(folder, {
      'fine.txt': 'f\n',
      'hooks/pre-commit': '#!/bin/sh\n',
      '.mcp.json': '{}',
      'sub/.git/hooks/post-checkout': '#!/bin/sh\n',
      'sub/.GIT/config': '',
      '.npmrc': '',
      '.env': 'SECRET=1\n',
    });
    const { fits, files } = await at.folders.merge(nameOf('one'), {});
    expect(fits).toBe(true);
    expect(files.filter(({ outcome }) => outcome === 'taken').map(({ path }) => path)).toEqual(['fine.txt']);
    expect(files.filter(({ outcome }) => outcome === 'refused').map(({ path }) => path)).toEqual([
      '.env',
      '.mcp.json',
      '.npmrc',
      'hooks/pre-commit',
      'sub/.GIT/config',
      'sub/.git/hooks/post-checkout',
    ]);
    expect(Object.keys(readFiles(at.workspace)).sort()).toEqual(['.gitignore', 'fine.txt', 'readme.md', 'src/a.js']);
    // What was refused is not thrown away with the session.
    await at.folders.ended(nameOf('one').sessionId);
    expect(existsSync(join(folder, '.mcp.json'))).toBe(true);
  });

  test('links that lead out are refused, and are never followed', async () => {
    const at = await opened(isolation);
    const outside = join(at.folder, 'outside');
    writeFiles(outside, { 'secret.txt': 'secret\n' });
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    rmSync(join(folder, 'src'), { recursive: true });
    symlinkSync(outside, join(folder, 'src'));
    symlinkSync('../../../../etc/passwd', join(folder, 'up'));
    symlinkSync('.git/config', join(folder, 'inner'));
    symlinkSync('readme.md', join(folder, 'fine'));
    const { patch } = await at.folders.diff(nameOf('one'));
    expect(patch).not.toContain('secret\n');
    const { files } = await at.folders.merge(nameOf('one'), {});
    expect(files.map(({ path, outcome }) => [path, outcome])).toEqual([
      ['fine', 'taken'],
      ['inner', 'refused'],
      ['src', 'refused'],
      ['src/a.js', 'taken'],
      ['up', 'refused'],
    ]);
    expect(readFiles(at.workspace)).toMatchObject({ fine: '-> readme.md' });
    await at.folders.discard(nameOf('one'));
    expect(readFiles(outside)).toEqual({ 'secret.txt': 'secret\n' });
  });

  test('links that lead out one through another are refused', async () => {
    const at = await opened(isolation);
    writeFiles(join(at.folder, 'outside'), { 'secret.txt': 'secret\n' });
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    writeFiles(folder, { 'a/b/c.txt': 'c\n' });
    symlinkSync('../..', join(folder, 'a/b/top'));
    symlinkSync('a/b/top/../outside', join(folder, 'way'));
    symlinkSync('./../../readme.md', join(folder, 'a/b/fine'));
    const { files } = await at.folders.merge(nameOf('one'), {});
    expect(files.map(({ path, outcome }) => `${path} ${outcome}`)).toEqual([
      'a/b/c.txt taken',
      'a/b/fine taken',
      'a/b/top taken',
      'way refused',
    ]);
    expect(existsSync(join(at.workspace, 'way/secret.txt'))).toBe(false);
  });

  test('links of the workspace that lead out are not written through', async () => {
    const at = await opened(isolation, { files: { 'dir/a.txt': 'a\n', 'b.txt': 'b\n' } });
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    writeFiles(folder, { 'dir/a.txt': 'changed\n', 'dir/new.txt': 'n\n', 'b.txt': 'changed\n' });
    const outside = join(at.folder, 'outside');
    writeFiles(outside, { 'a.txt': 'a\n', 'b.txt': 'b\n' });
    rmSync(join(at.workspace, 'dir'), { recursive: true });
    symlinkSync(outside, join(at.workspace, 'dir'));
    rmSync(join(at.workspace, 'b.txt'));
    symlinkSync(join(outside, 'b.txt'), join(at.workspace, 'b.txt'));
    const { fits } = await at.folders.merge(nameOf('one'), { prefer: 'session' });
    expect(fits).toBe(false);
    expect(readFiles(outside)).toEqual({ 'a.txt': 'a\n', 'b.txt': 'b\n' });
  });
});

describe('a copy', () => {
  test('holds links as links, and neither devices nor what they lead to', async () => {
    const at = await opened('copy');
    writeFiles(join(at.folder, 'outside'), { 'secret.txt': 'secret\n' });
    symlinkSync(join(at.folder, 'outside'), join(at.workspace, 'out'));
    symlinkSync('readme.md', join(at.workspace, 'in'));
    execFileSync('mkfifo', [join(at.workspace, 'pipe')]);
    writeFileSync(join(at.workspace, 'suid'), '');
    chmodSync(join(at.workspace, 'suid'), 0o4755);
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    expect(readFiles(folder)).toMatchObject({ out: `-> ${join(at.folder, 'outside')}`, in: '-> readme.md' });
    expect(existsSync(join(folder, 'pipe'))).toBe(false);
    expect(
      execFileSync('stat', ['--format=%a', join(folder, 'suid')])
        .toString()
        .trim(),
    ).toBe('755');
    expect((await at.folders.diff(nameOf('one'))).files).toEqual([]);
  });

  test('stores the common base once, and removes it with the last folder', async () => {
    const at = await opened('copy');
    const content = join(at.dataDir, 'folders/.content');
    const ids = ['one', 'two', 'three'];
    for (const id of ids) await at.folders.folderFor(at.session(id));
    const kept = Number(execFileSync('sh', ['-c', `ls ${content} | wc -l`]).toString());
    expect(kept).toBe(Object.keys(readFiles(at.workspace)).length);
    for (const id of ids) await at.folders.ended(nameOf(id).sessionId);
    expect(execFileSync('ls', [content]).toString()).toBe('');
  });
});
