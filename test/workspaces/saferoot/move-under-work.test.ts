import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { SafeRootError } from '../../../src/workspaces/saferoot/saferoot-error.ts';
import { createSceneForTest } from './scene.ts';

const refusalCode = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof SafeRootError ? error.code : String(error)),
  );

/** More than are looked through at once; twice as many questions as may be asked in one turn. */
const many = 3000;

/** A folder of many files, and how many questions were asked about it in one turn at most. */
function createCrowdedFolder(files: number) {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('many/deep'), { recursive: true });
  for (let i = 0; i < files; i++) writeFileSync(scene.inside(`many/deep/${i}`), '');
  const asked = { now: 0, most: 0 };
  const root = openRoot(scene.inside(), {
    checkAccess(_deed, names) {
      asked.most = Math.max(asked.most, ++asked.now);
      return names.at(-1) === 'kept' ? 'is kept' : undefined;
    },
  });
  let over = false;
  void (async () => {
    while (!over) {
      asked.now = 0;
      await turn();
    }
  })();
  onTestFinished(() => {
    over = true;
    root.close();
  });
  return { scene, root, asked };
}

test('a refused move into itself makes no folders', async () => {
  const { scene, root } = createCrowdedFolder(1);
  expect(await refusalCode(root.rename('many', 'many/a/b/c', { parents: true }))).toBe('INTO_ITSELF');
  expect(await refusalCode(root.rename('many/', 'many/deep/x/y/', { parents: true, overwrite: true }))).toBe(
    'INTO_ITSELF',
  );
  expect(readdirSync(scene.inside('many'), { recursive: true })).toEqual(['deep', 'deep/0']);
});

test('a large folder is moved while others write elsewhere without delay', async () => {
  const { scene, root, asked } = createCrowdedFolder(many);
  let over = false;
  const writing = (async () => {
    for (let i = 0; !over; i++) await root.replace(`other/${i % 3}`, 'x', { create: true, parents: true });
  })();
  expect(await refusalCode(root.rename('many', 'moved'))).toBe('done');
  over = true;
  await writing;
  expect(existsSync(scene.inside(`moved/deep/${many - 1}`))).toBe(true);
  expect(asked.most).toBeLessThan(5000);
});

test('a large folder that keeps changing is moved or refused, and never blocks others', async () => {
  const { root, asked } = createCrowdedFolder(many);
  let over = false;
  const writing = (async () => {
    for (let i = 0; !over; i++) {
      await root.replace(`many/deep/new-${i % 3}`, 'x', { create: true }).catch(() => {});
    }
  })();
  expect(['done', 'CHANGED']).toContain(await refusalCode(root.rename('many', 'moved')));
  over = true;
  await writing;
  expect(asked.most).toBeLessThan(5000);
});

test('a protected entry that appears during the survey stops the move', async () => {
  const { scene, root } = createCrowdedFolder(many);
  const moving = refusalCode(root.rename('many', 'moved'));
  await turn();
  mkdirSync(scene.inside('many/aside'));
  // Under a name that is not admitted by path, made by what does not ask.
  const free = openRoot(scene.inside());
  onTestFinished(() => free.close());
  await free.create('many/deep/kept', 'x');
  expect(await moving).toBe('NOT_ADMITTED');
  expect(existsSync(scene.inside('many/deep/kept'))).toBe(true);
});
