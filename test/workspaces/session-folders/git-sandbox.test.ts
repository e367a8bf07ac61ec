import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createContainerRunner } from '../../../src/sandbox/container/container.ts';
import { createGitRunner, GitError } from '../../../src/workspaces/session-folders/git/git.ts';
import { readAllFiles } from '../../fixtures/hostile/linked-repository.ts';
import { pathWithoutBwrap } from '../../needs/bwrap.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness } from '../../sandbox/bwrap/sandbox-harness.ts';
import { gitInSandbox, nameOf, readFiles, type Scene, useScenes, writeFiles } from './scene.ts';

const opened = useScenes();

/** A session from its start to its end. Answers what its folder held, and what came over. */
async function useFolder(at: Scene, id: string): Promise<Record<string, string>> {
  const folder = (await at.folders.folderFor(at.session(id, id))) as string;
  const held = readFiles(folder);
  writeFiles(folder, { 'readme.md': 'one\ntwo\n3\n', [`${id}.txt`]: 'new\n' });
  expect((await at.folders.diff(nameOf(id))).patch).toContain('-three');
  await at.folders.merge(nameOf(id), {});
  await at.folders.ended(nameOf(id).sessionId);
  expect(existsSync(folder)).toBe(false);
  return held;
}

test("S5: git sees the repository and the session's folder; it has no network, no home and no way to plant programs", async () => {
  const at = await opened('worktree');
  const [dot, tree] = [join(at.workspace, '.git'), join(at.folder, 'tree')];
  mkdirSync(tree);
  writeFileSync(join(at.folder, 'beside.txt'), '');
  const script = [
    `ls -a ${at.folder} ${at.workspace}`,
    `echo "settings: $(env | grep -c '^GIT_CONFIG_\\(SYSTEM\\|GLOBAL\\)=/dev/null$')"`,
    'echo "networks: $(grep -c : /proc/net/dev)"',
    'echo "home: $HOME $(ls -d "$HOME" 2>&1 | grep -c "No such")"',
    `for each in ${dot}/config ${dot}/hooks/planted ${dot}/info/attributes; do`,
    '  (echo >>"$each") 2>/dev/null && echo "wrote $each"; done',
    `echo >${at.workspace}/planted`,
    `echo >${dot}/ours && echo >${tree}/ours && echo finished`,
  ];
  const args = ['-c', `alias.look=!f() { ${script.join('\n')}\n}; f`, 'look'];
  const git = gitInSandbox;
  const said = (await git({ gitDir: dot }, args, { writes: [dot, tree] })).toString();
  const listed = [`${at.folder}:`, '.', '..', 'repo', 'tree', '', `${at.workspace}:`, '.', '..', '.git'];
  const seen = ['settings: 2', 'networks: 1', 'home: /nonexistent 1', 'finished'];
  expect(said.trim().split('\n')).toEqual([...listed, ...seen]);
  expect([dot, tree, at.workspace].map((folder) => existsSync(join(folder, 'ours')))).toEqual([true, true, false]);
  expect(existsSync(join(at.workspace, 'planted'))).toBe(false);
});

describe('S5: where there is no sandbox', () => {
  test('a worktree is refused with what to do, and so is what needs git of one there is', async () => {
    const bare = await createSandboxHarness(() => pathWithoutBwrap);
    const sandbox = () => bare.runner.probe().then(() => bare.runner);
    const git = createGitRunner({ sandbox, tmpRoot: bare.root });
    const at = await opened('worktree');
    const folder = (await at.folders.folderFor(at.session('one'))) as string;
    writeFiles(folder, { 'readme.md': 'changed\n' });
    const without = await at.another(git);
    const refusal = { code: 'WORKSPACE_UNAVAILABLE', hint: expect.stringMatching(/bubblewrap.*ambit doctor.*"copy"/) };
    await expect(without.folderFor(at.session('two'))).rejects.toMatchObject(refusal);
    await expect(without.diff(nameOf('one'))).rejects.toMatchObject(refusal);
    await expect(without.merge(nameOf('one'), {})).rejects.toMatchObject(refusal);
    // What cannot be looked at is kept.
    await without.ended(nameOf('one').sessionId);
    expect(readFileSync(join(folder, 'readme.md'), 'utf8')).toBe('changed\n');
    await bare.stop();
  });

  test.runIf(proof && hasPodman())('but podman, git runs in a container', async () => {
    const held = await createSandboxHarness(undefined, undefined, createContainerRunner);
    const git = createGitRunner({ sandbox: async () => held.runner, tmpRoot: held.root });
    const at = await opened('worktree', { git });
    const before = readFiles(at.workspace);
    expect(await useFolder(at, 'one')).toEqual(before);
    await held.stop();
  });
});

describe('S5: repositories that people have go on working', () => {
  test('a workspace that is a worktree of a repository elsewhere', async () => {
    const at = await opened('worktree');
    const main = join(at.folder, 'main');
    renameSync(at.workspace, main);
    execFileSync('git', ['-C', main, 'worktree', 'add', '--quiet', '-b', 'other', at.workspace]);
    const before = readFiles(at.workspace);
    expect(await useFolder(at, 'one')).toEqual(before);
    expect(execFileSync('git', ['-C', main, 'branch', '--format=%(refname:short)'], { encoding: 'utf8' })).toBe(
      'main\nother\n',
    );
    // One that only claims to be is not.
    rmSync(join(main, '.git/worktrees'), { recursive: true });
    await expect(at.folders.folderFor(at.session('two'))).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
  });

  test.runIf(proof)('one that a group shares, whose branches are packed', async () => {
    const at = await opened('worktree');
    at.git('config', 'core.sharedRepository', 'group');
    execFileSync('chmod', ['-R', 'g+ws', join(at.workspace, '.git')]);
    at.git('pack-refs', '--all');
    await useFolder(at, 'one');
    expect(at.git('branch', '--format=%(refname:short)')).toBe('main\n');
  });

  test('one that borrows objects is refused, with the remedy', async () => {
    const at = await opened('worktree', { part: 'part' });
    writeFileSync(join(at.folder, 'repo/.git/objects/info/alternates'), `${join(at.folder, 'elsewhere')}\n`);
    await expect(at.folders.folderFor(at.session('one'))).rejects.toThrow(
      /uses objects of another repository.*git repack -a -d/,
    );
  });
});

test('S5: of a repository that a workspace is a part of, git looks at that part and the rules above it', async () => {
  const at = await opened('worktree', { part: 'packages/a' });
  const top = join(at.folder, 'repo');
  writeFiles(top, { '.gitignore': 'made/\n', 'packages/b/new.txt': '' });
  at.git('add', '.gitignore');
  at.git('commit', '--quiet', '--message=rules');
  writeFiles(at.workspace, { 'made/by.txt': '' });
  const isUncommitted = async (id: string) => {
    await at.folders.folderFor(at.session(id, id));
    return (await at.folders.diff(nameOf(id))).uncommitted;
  };
  expect(await isUncommitted('one')).toBe(false);
  writeFiles(at.workspace, { 'new.txt': '' });
  expect(await isUncommitted('two')).toBe(true);
});

test('S5: a pipe among the branches or the objects does not block git without end', async () => {
  const at = await opened('worktree');
  const git = gitInSandbox;
  const dot = join(at.workspace, '.git');
  const commit = at.git('rev-parse', 'HEAD').trim();
  const objects = join(dot, 'objects', commit.slice(0, 2), commit.slice(2));
  for (const file of [objects, join(dot, 'refs/heads/main')]) {
    rmSync(file);
    execFileSync('mkfifo', [file]);
    const reading = git({ gitDir: dot }, ['rev-parse', 'HEAD^{commit}'], { timeoutMs: 300 });
    await expect(reading).rejects.toBeInstanceOf(GitError);
  }
});

test.runIf(proof)('S5: a repository that is replaced with another meanwhile is refused', async () => {
  const mine = await opened('worktree');
  const theirs = await opened('worktree', { files: { 'secret.txt': 'secret\n' } });
  const script = join(import.meta.dirname, '../../fixtures/hostile/swaps-repository.js');
  const before = readAllFiles(theirs.workspace);
  const args = [script, mine.workspace, join(theirs.workspace, '.git')];
  const swapper = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(swapper.stdout, 'data');
  let made = 0;
  for (let round = 0; round < 60; round++) {
    const id = `round${round}`;
    const folder = await mine.folders.folderFor(mine.session(id, id)).catch(() => undefined);
    if (folder !== undefined) expect(readFiles(folder)).toHaveProperty('readme.md');
    if (folder !== undefined) made++;
    expect(readAllFiles(theirs.workspace)).toEqual(before);
    await mine.folders.ended(nameOf(id).sessionId);
    expect(readAllFiles(theirs.workspace)).toEqual(before);
  }
  swapper.kill('SIGKILL');
  await once(swapper, 'exit');
  expect(made).toBeGreaterThan(0);
});
