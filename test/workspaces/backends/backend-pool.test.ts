import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { createBackendPool } from '../../../src/workspaces/backends/backend-pool.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { countDescriptors, createSceneForTest, expectNoMoreDescriptors } from '../saferoot/scene.ts';
import { noRules, readContent, refusalCode, toBytes } from './suite/suite-workspace.ts';

function openPool(path: string) {
  const kept = createBackendPool();
  onTestFinished(() => kept.close());
  const opened = { count: 0 };
  const open = async () => {
    opened.count++;
    return openLocal(path, { rules: noRules, sweep: false });
  };
  return { kept, opened, use: <T>(work: (files: WorkspaceBackend) => Promise<T>) => kept.use('key', open, work) };
}

test('a workspace that is removed and made again is reopened', async () => {
  const scene = createSceneForTest();
  const { use, opened } = openPool(scene.inside());
  await use((files) => files.write('old.txt', toBytes('old')));
  await use((files) => files.stat('old.txt'));
  expect(opened.count).toBe(1);

  rmSync(scene.inside(), { recursive: true });
  expect(await refusalCode(use((files) => files.stat('.')))).toBe('WORKSPACE_UNAVAILABLE');

  mkdirSync(scene.inside());
  writeFileSync(scene.inside('fresh.txt'), 'fresh');
  expect(await use((files) => readContent(files, 'fresh.txt'))).toBe('fresh');
  await use((files) => files.write('new.txt', toBytes('new')));
  expect(readFileSync(scene.inside('new.txt'), 'utf8')).toBe('new');
});

test('a workspace that is a link follows its new target, and closes the old folder', async () => {
  const scene = createSceneForTest();
  for (const name of ['one', 'two']) {
    mkdirSync(scene.inside(name));
    writeFileSync(scene.inside(`${name}/f.txt`), name);
  }
  symlinkSync('one', scene.inside('current'));
  const { use } = openPool(scene.inside('current'));
  expect(await use((files) => readContent(files, 'f.txt'))).toBe('one');
  const before = countDescriptors();
  await use(async (files) => {
    unlinkSync(scene.inside('current'));
    symlinkSync('two', scene.inside('current'));
    // Running work stays in the folder where it began.
    expect(await readContent(files, 'f.txt')).toBe('one');
    expect(await use((others) => readContent(others, 'f.txt'))).toBe('two');
  });
  expect(await use((files) => readContent(files, 'f.txt'))).toBe('two');
  await expectNoMoreDescriptors(before);
});

test('a folder that was renamed away is not written to any more', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('ws'));
  const { use } = openPool(scene.inside('ws'));
  await use((files) => files.write('a.txt', toBytes('a')));
  renameSync(scene.inside('ws'), scene.inside('put-aside'));
  mkdirSync(scene.inside('ws'));
  await Promise.all([1, 2, 3].map((each) => use((files) => files.write(`${each}.txt`, toBytes('x')))));
  expect(readFileSync(scene.inside('ws/3.txt'), 'utf8')).toBe('x');
  expect(await refusalCode(use((files) => files.stat('a.txt')))).toBe('FILE_NOT_FOUND');
});

test('W3: a link put in the place of the folder is not followed', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('ws'));
  writeFileSync(scene.inside('ws/f.txt'), 'mine');
  const { use } = openPool(scene.inside('ws'));
  await use((files) => files.stat('.'));
  renameSync(scene.inside('ws'), scene.inside('put-aside'));
  symlinkSync(scene.outside(), scene.inside('ws'));
  expect(await use((files) => readContent(files, 'f.txt'))).toBe('mine');
});
