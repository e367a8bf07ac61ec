import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { createSceneForTest, secret, takeSnapshot } from '../saferoot/scene.ts';
import { startSwapping } from '../saferoot/start-swapping.ts';
import { createTestFiles } from './file-tool-fixture.ts';

// The races of all tools together, in the journeys, run for a minute each.
const ms = counts(50, 15_000);

const [edit, move, remove] = ['edit_file', 'move_file', 'delete_file'];
/** What is called in turn; whoever deletes or moves first makes what is deleted or moved. */
const rounds: Readonly<Record<string, readonly (readonly [string, object])[]>> = {
  read: [['read_file', { path: 'a/d/f.txt' }]],
  info: [['file_info', { path: 'a/d/f.txt' }]],
  edit: [
    [edit, { path: 'a/d/f.txt', edits: [{ oldText: 'inside', newText: 'INSIDE' }] }],
    [edit, { path: 'a/d/f.txt', edits: [{ oldText: 'INSIDE', newText: 'inside' }] }],
  ],
  create: [[edit, { path: 'a/d/sub/new.txt', content: 'inside' }]],
  delete: [
    [edit, { path: 'a/d/g.txt', content: 'inside' }],
    [remove, { path: 'a/d/g.txt' }],
    [edit, { path: 'a/d/h/i.txt', content: 'inside' }],
    [remove, { path: 'a/d/h', recursive: true }],
  ],
  // A move that finds no folder makes one. The swapper removes it, and the moved file with it: so it is made each time.
  move: [
    [edit, { path: 'a/d/f.txt', content: 'inside' }],
    [move, { from: 'a/d/f.txt', to: 'a/d/sub/f.txt', overwrite: true }],
    [move, { from: 'a/d/sub/f.txt', to: 'a/d/f.txt', overwrite: true }],
  ],
};

test.each(Object.entries(rounds))('W3: a folder swapped for a link leads none of "%s" outside', async (_, calls) => {
  const scene = createSceneForTest();
  for (const [folder, content] of [
    [scene.inside('a/d'), 'inside'],
    [scene.outside(), `${secret} inside`],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    for (const name of ['f.txt', 'g.txt', 'sub/f.txt']) writeFileSync(join(folder, name), content);
  }
  const before = takeSnapshot(scene.outside());
  const swapper = await startSwapping(scene.inside('a'));
  const all = createTestFiles(100_000, scene.inside());
  const began = Date.now();
  let refused = 0;
  const done = calls.map(() => 0);
  // Until both have happened: each of the calls came through, and calls met the link.
  const isEnough = () => done.every((count) => count >= 5) && refused >= 5;
  while (swapper.isAtWork() && (Date.now() - began < ms || !isEnough())) {
    for (const [index, [tool, args]] of calls.entries()) {
      const result = await all.call(tool, args);
      expect(JSON.stringify(result)).not.toContain(secret);
      if (result.isError) refused++;
      else done[index] = (done[index] ?? 0) + 1;
    }
  }
  expect(swapper.isAtWork(), 'the swapper swapped to the end').toBe(true);
  expect(takeSnapshot(scene.outside())).toEqual(before);
  await swapper.stop();
  await all.close();
});
