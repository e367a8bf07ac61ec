import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openRoot, type SafeRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { compareWithBase } from '../../../src/workspaces/session-folders/changes.ts';
import { applyMerge } from '../../../src/workspaces/session-folders/folder-work.ts';
import { type PlannedChange, planMerge } from '../../../src/workspaces/session-folders/plan-merge.ts';
import { type PathContent, readContent } from '../../../src/workspaces/session-folders/snapshot.ts';
import { createScene, readFiles, type Scene, writeFiles } from './scene.ts';

const start = { 'a.txt': 'a\n', 'b/c.txt': 'c\n', 'd.txt': 'd\n', 'e/f/g.txt': 'g\n', 'run.sh': 'true\n' };
let at: Scene;
let session: SafeRoot;
let workspace: SafeRoot;
let folder: string;

beforeEach(async () => {
  at = await createScene('copy', { files: start });
  folder = join(at.folder, 'session');
  writeFiles(folder, start);
  symlinkSync('a.txt', join(at.workspace, 'link'));
  symlinkSync('a.txt', join(folder, 'link'));
  [session, workspace] = [openRoot(folder), openRoot(at.workspace)];
});
afterEach(() => {
  session.close();
  workspace.close();
  at.remove();
});

/** What each kind of change comes to, planned upon the workspace as it is. */
async function createPlan(): Promise<PlannedChange[]> {
  const base = new Map<string, PathContent>();
  for (const path of [...Object.keys(start), 'link'])
    base.set(path, (await readContent(workspace, path)) as PathContent);
  writeFiles(folder, { 'a.txt': 'session\n', 'new/deep.txt': 'new\n', 'z.txt': 'last\n' });
  for (const path of ['b/c.txt', 'e/f/g.txt', 'link']) unlinkSync(join(folder, path));
  symlinkSync('z.txt', join(folder, 'link'));
  chmodSync(join(folder, 'run.sh'), 0o755);
  const staging = join(at.folder, 'staging');
  mkdirSync(staging);
  const changes = await compareWithBase(session, base);
  const none = async () => undefined;
  return planMerge({ session, workspace, staging }, changes, none, { closed: () => undefined });
}

test('all that was planned is there afterwards', async () => {
  await applyMerge(workspace, await createPlan(), join(at.folder, 'undo'));
  expect(readFiles(at.workspace)).toEqual(readFiles(folder));
  expect(statSync(join(at.workspace, 'run.sh')).mode & 0o111).not.toBe(0);
});

test.each([
  ['a file that was to be replaced is changed', () => writeFiles(at.workspace, { 'a.txt': 'meanwhile\n' })],
  ['a file that was to be deleted is changed', () => writeFiles(at.workspace, { 'e/f/g.txt': 'meanwhile\n' })],
  ['a file that was to be made is there', () => writeFiles(at.workspace, { 'z.txt': 'meanwhile\n' })],
  ['a folder is where a file was to be made', () => writeFiles(at.workspace, { 'z.txt/in': 'meanwhile\n' })],
  ['a file that was to be made runnable is gone', () => rmSync(join(at.workspace, 'run.sh'))],
  [
    'a link leads out where a folder was',
    () => {
      writeFiles(join(at.folder, 'outside'), { 'f/g.txt': 'g\n' });
      rmSync(join(at.workspace, 'e'), { recursive: true });
      symlinkSync(join(at.folder, 'outside'), join(at.workspace, 'e'));
    },
  ],
])('when meanwhile %s, nothing of the merge stays', async (_, meanwhile) => {
  const plan = await createPlan();
  meanwhile();
  const before = readFiles(at.workspace);
  const modes = statSync(join(at.workspace, 'a.txt')).mode;
  await expect(applyMerge(workspace, plan, join(at.folder, 'undo'))).rejects.toThrow();
  expect(readFiles(at.workspace)).toEqual(before);
  expect(statSync(join(at.workspace, 'a.txt')).mode).toBe(modes);
});

test('what the session writes after the merge was planned is not part of it', async () => {
  const plan = await createPlan();
  writeFileSync(join(folder, 'a.txt'), 'too late\n');
  await applyMerge(workspace, plan, join(at.folder, 'undo'));
  expect(readFileSync(join(at.workspace, 'a.txt'), 'utf8')).toBe('session\n');
});
