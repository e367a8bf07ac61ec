import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { createScene, readFiles, type Scene, writeFiles } from '../../workspaces/session-folders/scene.ts';
import { ambitInProcess } from '../in-process.ts';

/** The how-to is run with worktrees. */
const isolation = proof ? 'worktree' : 'copy';
let at: Scene;
let places: string[];
beforeAll(async () => {
  at = await createScene(isolation);
  const file = join(at.folder, 'etc.json');
  const workspaces = { repo: { path: at.workspace, isolation }, plain: { path: at.workspace } };
  writeFileSync(file, JSON.stringify({ version: 1, sessions: { defaultTrust: 'direct' }, workspaces }));
  places = ['--config', file, '--data-dir', join(at.folder, 'own-data')];
});
afterAll(() => at.remove());

const ambit = (...args: string[]) => ambitInProcess([...args, ...places]);

async function openSessionIn(name: string): Promise<{ readonly id: string; readonly folder: string }> {
  const { stdout } = await ambit('session', 'create', '--workspace', 'repo', '--name', name, '--json');
  const { id } = JSON.parse(stdout) as { id: string };
  const { stdout: diff } = await ambit('session', 'diff', name, '--json');
  return { id, folder: (JSON.parse(diff) as { path: string }).path };
}

test('W12: a session is made with its folder; diff, merge, end and discard work on it without a gateway', async () => {
  const { id, folder } = await openSessionIn('task');
  expect(readFiles(folder)).toEqual(readFiles(at.workspace));
  expect(await ambit('session', 'diff', 'task')).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('No unmerged changes'),
  });
  writeFiles(folder, { 'readme.md': 'one\ntwo\n\u001b[31mred\n', 'new.txt': 'new\n' });
  const diff = await ambit('session', 'diff', 'task');
  expect(diff.stdout).toContain('diff --git a/readme.md b/readme.md\n--- a/readme.md\n+++ b/readme.md\n');
  expect(diff.stdout).toContain('\n-three\n+\u001b[31mred\n');
  expect((await ambit('session', 'diff', 'task', '--stat')).stdout).toMatch(/readme\.md +modified +1 +1/);

  const dry = await ambit('session', 'merge', 'task', '--dry-run', '--json');
  const { changesHash } = JSON.parse((await ambit('session', 'diff', 'task', '--json')).stdout) as Record<
    string,
    string
  >;
  expect(JSON.parse(dry.stdout)).toMatchObject({ sessionId: id, dryRun: true, fits: true, changesHash });
  writeFiles(folder, { 'unseen.txt': '' });
  const unseen = await ambit('session', 'merge', 'task', '--changes-hash', changesHash as string);
  expect([unseen.code, unseen.stderr]).toEqual([1, expect.stringContaining('FILE_CHANGED')]);
  rmSync(join(folder, 'unseen.txt'));
  expect(existsSync(join(at.workspace, 'new.txt'))).toBe(false);
  writeFiles(at.workspace, { 'readme.md': 'one\ntwo\nmine\n' });
  const refused = await ambit('session', 'merge', 'task');
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(/WORKSPACE_CONFLICT[\s\S]*"readme\.md": changed in the session and in the workspace/);
  expect(existsSync(join(at.workspace, 'new.txt'))).toBe(false);
  const merged = await ambit('session', 'merge', 'task', '--prefer', 'workspace');
  expect(merged.code).toBe(0);
  expect(merged.stdout).toMatch(/new\.txt +added +taken/);
  expect(readFileSync(join(at.workspace, 'readme.md'), 'utf8')).toBe('one\ntwo\nmine\n');

  writeFiles(folder, { 'later.txt': 'later\n' });
  expect((await ambit('session', 'discard', 'task', '--yes')).stderr).toContain('still using its folder');
  expect((await ambit('session', 'end', 'task')).code).toBe(0);
  // It holds what was not merged, so it stays, and is found though its session is gone.
  expect((await ambit('session', 'diff', id.slice(0, 8), '--stat')).stdout).toContain('later.txt');
  expect((await ambit('session', 'discard', 'task', '--yes')).stdout).toContain('Deleted the folder of session');
  expect(existsSync(folder)).toBe(false);
  expect(await ambit('session', 'diff', 'task')).toMatchObject({ code: 1 });
});

test('resolve hands out the folder of the session', async () => {
  const { folder } = await openSessionIn('resolved');
  rmSync(folder, { recursive: true });
  expect((await ambit('resolve', '--session', 'resolved')).code).toBe(0);
  expect(existsSync(join(folder, 'readme.md'))).toBe(true);
});

test('a session without a folder of its own gets an error that says so', async () => {
  await ambit('session', 'create', '--workspace', 'plain', '--name', 'plain');
  for (const command of ['diff', 'merge']) {
    const { code, stderr } = await ambit('session', command, 'plain');
    expect([code, stderr]).toEqual([1, expect.stringContaining('no folder of its own')]);
  }
  expect(await ambit('session', 'merge', 'plain', '--prefer', 'me')).toMatchObject({ code: 2 });
});
