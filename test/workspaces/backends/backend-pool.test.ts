import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { createBackendPool } from '../../../src/workspaces/backends/backend-pool.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { expectNoMoreDescriptors, openDescriptors, sceneOfTest } from '../saferoot/scene.ts';
import { bytes, codeOf, contentOf, noRules } from './suite/suite-workspace.ts';

function keptAt(path: string) {
  const kept = createBackendPool();
  onTestFinished(() => kept.close());
  const opened = { count: 0 };
  const open = async () => {
    opened.count++;
    return openLocal(path, { rules: noRules, sweep: false });
  };
  return { kept, opened, use: <T>(work: (files: WorkspaceBackend) => Promise<T>) => kept.use('key', open, work) };
}

test('a workspace that is taken away and made anew is found again', async () => {
  const scene = sceneOfTest();
  const { use, opened } = keptAt(scene.inside());
  await use((files) => files.write('old.txt', bytes('old')));
  await use((files) => files.stat('old.txt'));
  expect(opened.count).toBe(1);

  rmSync(scene.inside(), { recursive: true });
  expect(await codeOf(use((files) => files.stat('.')))).toBe('WORKSPACE_UNAVAILABLE');

  mkdirSync(scene.inside());
  writeFileSync(scene.inside('fresh.txt'), 'fresh');
  expect(await use((files) => contentOf(files, 'fresh.txt'))).toBe('fresh');
  await use((files) => files.write('new.txt', bytes('new')));
  expect(readFileSync(scene.inside('new.txt'), 'utf8')).toBe('new');
});

test('a workspace that is a link follows it where it is led next, and lets the old folder go', async () => {
  const scene = sceneOfTest();
  for (const name of ['one', 'two']) {
    mkdirSync(scene.inside(name));
    writeFileSync(scene.inside(`${name}/f.txt`), name);
  }
  symlinkSync('one', scene.inside('current'));
  const { use } = keptAt(scene.inside('current'));
  expect(await use((files) => contentOf(files, 'f.txt'))).toBe('one');
  const before = openDescriptors();
  await use(async (files) => {
    unlinkSync(scene.inside('current'));
    symlinkSync('two', scene.inside('current'));
    // Whoever is at work stays where it began.
    expect(await contentOf(files, 'f.txt')).toBe('one');
    expect(await use((others) => contentOf(others, 'f.txt'))).toBe('two');
  });
  expect(await use((files) => contentOf(files, 'f.txt'))).toBe('two');
  await expectNoMoreDescriptors(before);
});

test('a folder renamed under its path is not written to any more', async () => {
  const scene = sceneOfTest();
  mkdirSync(scene.inside('ws'));
  const { use } = keptAt(scene.inside('ws'));
  await use((files) => files.write('a.txt', bytes('a')));
  renameSync(scene.inside('ws'), scene.inside('put-aside'));
  mkdirSync(scene.inside('ws'));
  await Promise.all([1, 2, 3].map((each) => use((files) => files.write(`${each}.txt`, bytes('x')))));
  expect(readFileSync(scene.inside('ws/3.txt'), 'utf8')).toBe('x');
  expect(await codeOf(use((files) => files.stat('a.txt')))).toBe('FILE_NOT_FOUND');
});

test('W3: a link put in the place of the folder is not followed', async () => {
  const scene = sceneOfTest();
  mkdirSync(scene.inside('ws'));
  writeFileSync(scene.inside('ws/f.txt'), 'mine');
  const { use } = keptAt(scene.inside('ws'));
  await use((files) => files.stat('.'));
  renameSync(scene.inside('ws'), scene.inside('put-aside'));
  symlinkSync(scene.outside(), scene.inside('ws'));
  expect(await use((files) => contentOf(files, 'f.txt'))).toBe('mine');
});
