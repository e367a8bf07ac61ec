import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { gitInSandbox, nameOf, type Scene, useScenes, writeFiles } from './scene.ts';

const opened = useScenes();

/** A program that leaves a mark, wherever it is planted. */
function plantProgram(at: Scene, file: string): { readonly program: string; readonly ran: () => boolean } {
  const mark = join(at.folder, 'ran');
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, `#!/bin/sh\ntouch ${mark}\ncat\n`);
  chmodSync(file, 0o755);
  return { program: file, ran: () => existsSync(mark) };
}

/** All that is done to a folder in its life. */
async function useFolder(at: Scene, id: string): Promise<string> {
  const folder = (await at.folders.folderFor(at.session(id, id))) as string;
  writeFiles(folder, { 'readme.md': 'one\ntwo\n3\n', 'new.txt': 'n\n' });
  await at.folders.diff(nameOf(id));
  await at.folders.merge(nameOf(id), {});
  await at.folders.ended(nameOf(id).sessionId);
  return folder;
}

describe('nothing that a repository or a session configures is run', () => {
  const hooks = [
    'post-checkout',
    'reference-transaction',
    'post-index-change',
    'pre-commit',
    'post-merge',
    'fsmonitor',
  ];

  test('hooks, in their folder or in another that the configuration names', async () => {
    const at = await opened('worktree');
    const marks = hooks.map((hook) => plantProgram(at, join(at.workspace, '.git/hooks', hook)));
    plantProgram(at, join(at.workspace, '.git/other/post-checkout'));
    await useFolder(at, 'one');
    at.git('config', 'core.hooksPath', join(at.workspace, '.git/other'));
    await useFolder(at, 'two');
    expect(marks.some(({ ran }) => ran())).toBe(false);
    // The mark is no dud: git itself runs the hook.
    at.git('worktree', 'add', '--quiet', join(at.folder, 'plain'));
    expect(marks[0]?.ran()).toBe(true);
  });

  test('filters, monitors, drivers and programs of the repository, named by its attributes', async () => {
    const at = await opened('worktree', {
      files: {
        '.gitattributes': '* filter=evil diff=evil merge=evil\n',
        'readme.md': 'one\ntwo\nthree\n',
        'a.txt': 'a\n',
      },
    });
    const { program, ran } = plantProgram(at, join(at.workspace, '.git/evil'));
    for (const key of [
      ...['filter.evil.clean', 'filter.evil.smudge', 'filter.evil.process', 'diff.evil.command', 'diff.evil.textconv'],
      ...['merge.evil.driver', 'core.fsmonitor', 'core.sshCommand', 'core.pager', 'core.editor', 'diff.external'],
      ...['core.alternateRefsCommand', 'gpg.program', 'core.askPass', 'interactive.diffFilter', 'core.gitProxy'],
      ...['alias.worktree', 'alias.read-tree', 'alias.status'],
    ]) {
      at.git('config', '--local', key, key.startsWith('alias') ? `!${program}` : program);
    }
    const folder = await useFolder(at, 'one');
    expect(ran()).toBe(false);
    expect(existsSync(folder)).toBe(false);
    expect(readFileSync(join(at.workspace, 'readme.md'), 'utf8')).toBe('one\ntwo\n3\n');
  });

  test('a session that makes its folder a repository of its own, with a configuration', async () => {
    const at = await opened('worktree');
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    const { program, ran } = plantProgram(at, join(folder, 'evil'));
    rmSync(join(folder, '.git'));
    execFileSync('git', ['init', '--quiet', folder]);
    for (const key of ['core.fsmonitor', 'filter.evil.clean', 'diff.external']) {
      execFileSync('git', ['-C', folder, 'config', key, program]);
    }
    writeFiles(folder, { '.gitattributes': '* filter=evil\n', 'readme.md': 'changed\n' });
    expect((await at.folders.diff(nameOf('one'))).files.map(({ path }) => path)).toEqual([
      '.gitattributes',
      'evil',
      'readme.md',
    ]);
    await at.folders.merge(nameOf('one'), {});
    await at.folders.ended(nameOf('one').sessionId);
    expect(ran()).toBe(false);
    expect(existsSync(folder)).toBe(false);
    expect(at.git('worktree', 'list').trim().split('\n')).toHaveLength(1);
  });

  test.runIf(proof)('a submodule is not fetched, and leaves an empty folder', async () => {
    const at = await opened('worktree');
    const { program, ran } = plantProgram(at, join(at.workspace, '.git/evil'));
    const commit = at.git('rev-parse', 'HEAD').trim();
    writeFiles(at.workspace, {
      '.gitmodules': `[submodule "s"]\n\tpath = s\n\turl = ext::${program}\n\tupdate = !${program}\n`,
    });
    at.git('update-index', '--add', '--cacheinfo', `160000,${commit},s`);
    at.git('add', '.gitmodules');
    at.git('commit', '--quiet', '--message=module');
    at.git('config', 'submodule.recurse', 'true');
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    expect(existsSync(join(folder, 's'))).toBe(true);
    expect((await at.folders.diff(nameOf('one'))).files).toEqual([]);
    expect(ran()).toBe(false);
  });
});

test('what a repository configures to run, to fetch or to look further is overruled, each of it', async () => {
  const at = await opened('worktree');
  const harmless = {
    'core.hookspath': '/dev/null',
    'core.fsmonitor': 'false',
    'core.untrackedcache': 'false',
    'core.attributesfile': '/dev/null',
    'core.excludesfile': '/dev/null',
    'core.sshcommand': 'false',
    'core.alternaterefscommand': 'false',
    'core.pager': 'cat',
    'core.editor': 'false',
    'core.askpass': 'false',
    'credential.helper': '',
    'protocol.allow': 'never',
    'submodule.recurse': 'false',
    'gc.auto': '0',
    'maintenance.auto': 'false',
    'worktree.guessremote': 'false',
    'core.sharedrepository': 'umask',
  };
  const sections = Object.keys(harmless).map((key) => `[${key.replace('.', ']\n\t')} = 7\n`);
  appendFileSync(join(at.workspace, '.git/config'), sections.join(''));
  const git = gitInSandbox;
  const said = await git({ gitDir: join(at.workspace, '.git') }, ['config', '--list', '--show-scope', '-z']);
  const words = said.toString().split('\0').slice(0, -1);
  const settings = words.flatMap((scope, index) => (index % 2 === 0 ? [{ scope, line: words[index + 1] ?? '' }] : []));
  // What comes last holds.
  const inForce = Object.fromEntries(settings.map(({ line }) => line.split('\n')));
  expect(inForce).toMatchObject(harmless);
  expect(new Set(settings.map(({ scope }) => scope))).toEqual(new Set(['local', 'command']));
});

describe('no other repository is looked into', () => {
  async function beside(): Promise<{ readonly at: Scene; readonly secret: Scene }> {
    return { at: await opened('worktree'), secret: await opened('worktree', { files: { 'secret.txt': 'secret\n' } }) };
  }

  test.each([
    ['a ".git" file that points there', (at: string, secret: string) => writeFileSync(at, `gitdir: ${secret}\n`)],
    ['a ".git" link', (at: string, secret: string) => symlinkSync(secret, at)],
    [
      'a ".git" folder whose parts are links',
      (at: string, secret: string) => {
        mkdirSync(at);
        for (const part of ['HEAD', 'objects', 'refs', 'config']) symlinkSync(join(secret, part), join(at, part));
      },
    ],
    [
      'a ".git" folder that shares its objects and branches',
      (at: string, secret: string) => {
        execFileSync('git', ['init', '--quiet', join(at, '..')]);
        writeFileSync(join(at, 'commondir'), `${secret}\n`);
      },
    ],
    [
      'a repository that borrows objects',
      (at: string, secret: string) => {
        const commit = execFileSync('git', [`--git-dir=${secret}`, 'rev-parse', 'HEAD']);
        execFileSync('git', ['init', '--quiet', '--initial-branch=main', join(at, '..')]);
        writeFileSync(join(at, 'objects/info/alternates'), `${join(secret, 'objects')}\n`);
        writeFileSync(join(at, 'refs/heads/main'), commit);
      },
    ],
  ])('%s is refused', async (_, plant) => {
    const { at, secret } = await beside();
    rmSync(join(at.workspace, '.git'), { recursive: true });
    plant(join(at.workspace, '.git'), join(secret.workspace, '.git'));
    await expect(at.folders.folderFor(at.session('one'))).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    expect(secret.git('branch', '--list', 'ambit/*')).toBe('');
  });

  test('a session that points its own ".git" elsewhere changes nothing there', async () => {
    const { at, secret } = await beside();
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    writeFileSync(join(folder, '.git'), `gitdir: ${join(secret.workspace, '.git')}\n`);
    writeFiles(folder, { 'mine.txt': 'm\n' });
    expect((await at.folders.diff(nameOf('one'))).files.map(({ path }) => path)).toEqual(['mine.txt']);
    await at.folders.merge(nameOf('one'), {});
    await at.folders.ended(nameOf('one').sessionId);
    expect(secret.git('status', '--porcelain')).toBe('');
    expect(secret.git('worktree', 'list').trim().split('\n')).toHaveLength(1);
  });

  test.runIf(proof)('a worktree of the repository can be a workspace', async () => {
    const at = await opened('worktree');
    const other = join(at.folder, 'other');
    at.git('worktree', 'add', '--quiet', '-b', 'other', other);
    renameSync(at.workspace, join(at.folder, 'moved'));
    await expect(at.folders.folderFor(at.session('gone'))).rejects.toThrow();
    renameSync(join(at.folder, 'moved'), at.workspace);
    const { findRepository } = await import('../../../src/workspaces/session-folders/git/repository.ts');
    expect(findRepository(other)).toMatchObject({ commonDir: join(at.workspace, '.git'), prefix: '' });
  });
});

describe('S4: ignored files are not merged when git fails', () => {
  const implant = 'node_modules/.bin/eslint';

  async function withImplant() {
    const at = await opened('worktree', { files: { '.gitignore': 'node_modules/\n', 'a.txt': 'a\n' } });
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    writeFiles(folder, { [implant]: 'planted\n', 'a.txt': 'changed\n', 'sub/b.txt': 'b\n' });
    return { at, folder };
  }

  test('a pipe or a file that cannot be read in place of a .gitignore', async () => {
    const { at, folder } = await withImplant();
    const pipe = join(folder, 'sub/.gitignore');
    execFileSync('mkfifo', [pipe]);
    const refused = { code: 'WORKSPACE_UNAVAILABLE', message: expect.stringContaining('"sub/.gitignore"') };
    await expect(at.folders.diff(nameOf('one'))).rejects.toMatchObject(refused);
    await expect(at.folders.merge(nameOf('one'), {})).rejects.toMatchObject(refused);
    rmSync(pipe);
    chmodSync(join(folder, '.gitignore'), 0);
    await expect(at.folders.merge(nameOf('one'), {})).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    chmodSync(join(folder, '.gitignore'), 0o644);
    expect(existsSync(join(at.workspace, implant))).toBe(false);
    expect((await at.folders.merge(nameOf('one'), {})).files.map(({ path }) => path)).toEqual(['a.txt', 'sub/b.txt']);
    expect(existsSync(join(at.workspace, implant))).toBe(false);
  });

  test('a pipe that appears after the check makes git time out, and nothing is reported', async () => {
    const { at, folder } = await withImplant();
    execFileSync('mkfifo', [join(folder, 'sub/.gitignore')]);
    const { listIgnoredFiles, shadowPaths } = await import('../../../src/workspaces/session-folders/original-files.ts');
    const shadow = shadowPaths(join(folder, '..', 'git'), join(at.workspace, '.git'), folder);
    await expect(listIgnoredFiles(gitInSandbox, shadow, 300)).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
  });

  test('a repository that is gone', async () => {
    const { at } = await withImplant();
    renameSync(join(at.workspace, '.git'), join(at.folder, 'aside'));
    const { files } = await at.folders.diff(nameOf('one'));
    expect(files.map(({ path }) => path)).toEqual(['a.txt', 'sub/b.txt']);
  });
});

test('pipes in place of files of a repository do not block', async () => {
  const at = await opened('worktree');
  const [dot, aside] = [join(at.workspace, '.git'), join(at.folder, 'aside')];
  rmSync(join(dot, 'index'));
  execFileSync('mkfifo', [join(dot, 'index')]);
  expect(await at.folders.folderFor(at.session('one'))).toBeDefined();

  renameSync(dot, aside);
  mkdirSync(join(at.workspace, 'x'));
  writeFileSync(dot, 'gitdir: x\n');
  execFileSync('mkfifo', [join(at.workspace, 'x/gitdir'), join(at.workspace, 'x/commondir')]);
  await expect(at.folders.folderFor(at.session('two'))).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
});
