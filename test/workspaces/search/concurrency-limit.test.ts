import { expect, test } from 'vitest';
import { createLimitPerKey } from '../../../src/workspaces/search/ripgrep.ts';

test('S8: a limited number of searches of one folder run at a time, in order, even after failures', async () => {
  const inTurn = createLimitPerKey(2);
  const atWork: (() => void)[] = [];
  const started: string[] = [];
  const search = (folder: string, name: string, fails = false) =>
    inTurn(folder, async () => {
      started.push(name);
      await new Promise<void>((accept) => atWork.push(accept));
      if (fails) throw new Error(name);
      return name;
    });
  const all = [search('a', '1', true), search('a', '2'), search('a', '3'), search('a', '4'), search('b', '5')];
  const outcomes = Promise.allSettled(all);
  expect(started).toEqual(['1', '2', '5']);
  atWork[0]?.();
  await all[0]?.catch(() => {});
  await expect.poll(() => started).toEqual(['1', '2', '5', '3']);
  atWork[1]?.();
  await expect.poll(() => started).toEqual(['1', '2', '5', '3', '4']);
  for (const finish of atWork) finish();
  expect((await outcomes).map(({ status }) => status[0])).toEqual(['r', 'f', 'f', 'f', 'f']);
});
