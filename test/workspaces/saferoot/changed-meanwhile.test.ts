import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CheckAccess } from '../../../src/workspaces/saferoot/check-access.ts';
import { renameEntry } from '../../../src/workspaces/saferoot/move.ts';
import { makeFolder } from '../../../src/workspaces/saferoot/open-root.ts';
import { createLinuxFs } from '../../../src/workspaces/saferoot/platform/linux-fs.ts';
import type { PlatformFs } from '../../../src/workspaces/saferoot/platform/platform-fs.ts';
import { removeTree } from '../../../src/workspaces/saferoot/remove.ts';
import type { RootFolder } from '../../../src/workspaces/saferoot/walk-path.ts';
import { createFile } from '../../../src/workspaces/saferoot/write-file.ts';
import { createSceneForTest, listNamesBelow, settleOutcome } from './scene.ts';

test('a file is not written when its folder was moved to a protected path meanwhile', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('x'));
  writeFileSync(scene.inside('x/f.txt'), 'old');
  const checkAccess = (access: string, [first]: readonly string[]) =>
    access === 'write' && first === 'deploy' ? 'is kept' : undefined;
  const root = scene.open({ checkAccess });
  async function* whileMoved() {
    yield Buffer.from('planted');
    // Somebody who is not bound by the rules moves the folder while the content is still on its way.
    renameSync(scene.inside('x'), scene.inside('deploy'));
  }
  expect(await settleOutcome(root.replace('x/f.txt', whileMoved()))).toBe('CHANGED');
  renameSync(scene.inside('deploy'), scene.inside('x'));
  expect(await settleOutcome(root.create('x/g.txt', whileMoved()))).toBe('CHANGED');
  expect(listNamesBelow(scene.inside())).toEqual(['deploy', 'deploy/f.txt']);
  expect(readFileSync(scene.inside('deploy/f.txt'), 'utf8')).toBe('old');
});

test('an entry that is protected after the survey is not removed', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('d/deep'), { recursive: true });
  writeFileSync(scene.inside('d/deep/late'), 'content');
  let asked = 0;
  // As if it had come under this name after the first look.
  const checkAccess = (_: string, names: readonly string[]) =>
    names.at(-1) === 'late' && ++asked > 1 ? 'is kept' : undefined;
  expect(await settleOutcome(scene.open({ checkAccess }).removeTree('d'))).toBe('NOT_ADMITTED');
  expect(readFileSync(scene.inside('d/deep/late'), 'utf8')).toBe('content');
});

test('a folder that replaced the surveyed one is not moved without a survey', async () => {
  const scene = createSceneForTest();
  for (const name of ['many', 'other']) mkdirSync(scene.inside(name));
  writeFileSync(scene.inside('many/a'), '');
  writeFileSync(scene.inside('other/kept'), 'content');
  let swapped = false;
  const root = scene.open({
    checkAccess: (_, names) => {
      if (names.at(-1) === 'a' && !swapped) {
        swapped = true;
        renameSync(scene.inside('many'), scene.inside('aside'));
        renameSync(scene.inside('other'), scene.inside('many'));
      }
      return names.at(-1) === 'kept' ? 'is kept' : undefined;
    },
  });
  expect(await settleOutcome(root.rename('many', 'moved'))).toBe('NOT_ADMITTED');
  expect(listNamesBelow(scene.inside())).toEqual(['aside', 'aside/a', 'many', 'many/kept']);
});

test('a folder is not moved through a link that is newer than the survey', async () => {
  const scene = createSceneForTest();
  for (const name of ['many', 'free', 'deploy']) mkdirSync(scene.inside(name));
  writeFileSync(scene.inside('many/prod.yaml'), 'planted');
  symlinkSync('free', scene.inside('link'));
  let turned = false;
  const root = scene.open({
    checkAccess: (_, names) => {
      if (names.at(-1) === 'prod.yaml' && !turned) {
        turned = true;
        rmSync(scene.inside('link'));
        symlinkSync('deploy', scene.inside('link'));
      }
      return names[0] === 'deploy' && names.at(-1) === 'prod.yaml' ? 'is kept' : undefined;
    },
  });
  expect(await settleOutcome(root.rename('many', 'link/x'))).toBe('NOT_ADMITTED');
  expect(listNamesBelow(scene.inside())).toEqual(['deploy', 'free', 'link', 'many', 'many/prod.yaml']);
});

test('a tree that holds another mount is not removed, nor any part of it', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('d/mounted'), { recursive: true });
  for (const file of ['d/a', 'd/mounted/b', 'd/z']) writeFileSync(scene.inside(file), '');
  const before = listNamesBelow(scene.inside());
  const { ino } = statSync(scene.inside('d/mounted'));
  const platformFs = createLinuxFs(false);
  const root = platformFs.openRoot(scene.inside());
  onTestFinished(() => platformFs.release(root));
  // The folder is none, but said to be one: not every account can mount.
  const isSameMount: PlatformFs['isSameMount'] = (one) => one.stats.ino !== ino;
  const folder = { fs: { ...platformFs, isSameMount }, root, strict: false, checkAccess: undefined };
  expect(await settleOutcome(removeTree(folder, 'd'))).toBe('OTHER_DEVICE');
  expect(listNamesBelow(scene.inside())).toEqual(before);
});

describe('S4: a change by another process between check and operation breaks no rule', () => {
  /** A folder whose `deploy` may not get a prod.yaml, with somebody else at work at a step of ours. */
  function watched(onStep: (name: string, inside: (path?: string) => string) => void) {
    const scene = createSceneForTest();
    const platformFs = createLinuxFs(false);
    const root = platformFs.openRoot(scene.inside());
    onTestFinished(() => platformFs.release(root));
    const step: PlatformFs['step'] = (parent, name) => {
      try {
        return platformFs.step(parent, name);
      } finally {
        onStep(name.toString(), scene.inside);
      }
    };
    const checkAccess: CheckAccess = (access, names) =>
      access === 'write' && (names.includes('.git') || (names[0] === 'deploy' && names.includes('prod.yaml')))
        ? 'is kept'
        : undefined;
    return { scene, folder: { fs: { ...platformFs, step }, root, strict: false, checkAccess } };
  }

  test('the folder of a new file is moved', async () => {
    let looks = 0;
    const { scene, folder } = watched((name, inside) => {
      if (name === 'x' && ++looks === 2) renameSync(inside('x'), inside('deploy'));
    });
    mkdirSync(scene.inside('x'));
    expect(await settleOutcome(createFile(folder, 'x/prod.yaml', 'planted'))).toBe('CHANGED');
    expect(listNamesBelow(scene.inside())).toEqual(['deploy']);
  });

  test('the other part of a repository is made', async () => {
    const other = (mine: string, theirs: string) => (_: string, inside: (path?: string) => string) => {
      if (existsSync(inside(mine))) mkdirSync(inside(theirs), { recursive: true });
    };
    const makes: [string, string, (folder: RootFolder) => unknown][] = [
      ['x/HEAD', 'x/refs', (folder) => createFile(folder, 'x/HEAD', 'ref: refs/heads/main')],
      ['x/refs', 'x/HEAD', (folder) => makeFolder(folder, 'x/refs')],
      ['x/refs', 'x/HEAD', (folder) => makeFolder(folder, 'x/refs/a', { parents: true })],
      ['x/HEAD', 'x/refs', (folder) => renameEntry(folder, 'spare', 'x/HEAD')],
    ];
    for (const [mine, theirs, make] of makes) {
      const { scene, folder } = watched(other(mine, theirs));
      mkdirSync(scene.inside('x/objects'), { recursive: true });
      writeFileSync(scene.inside('spare'), '');
      expect(await settleOutcome((async () => make(folder))())).toBe('NOT_ADMITTED');
      expect(listNamesBelow(scene.inside())).toEqual(['spare', 'x', theirs, 'x/objects'].sort());
    }
  });

  test.each([false, true])(
    'something is put into a folder that is moved, and its old name is taken: %s',
    async (taken) => {
      let looks = 0;
      const { scene, folder } = watched((name, inside) => {
        if (name !== 'deploy') return;
        if (++looks === 3) writeFileSync(inside('big/prod.yaml'), 'planted');
        if (looks === 4 && taken) mkdirSync(inside('big'));
      });
      mkdirSync(scene.inside('big'));
      expect(await settleOutcome(renameEntry(folder, 'big', 'deploy'))).toBe('NOT_ADMITTED');
      const names = listNamesBelow(scene.inside());
      expect(names.filter((name) => name.startsWith('deploy'))).toEqual([]);
      expect(names.filter((name) => name.endsWith('/prod.yaml'))).toHaveLength(1);
    },
  );
});
