import { getHeapSpaceStatistics } from 'node:v8';
import { expect, test } from 'vitest';
import { type SetEntry, ShortLivedSet } from '../../../src/lib/async/short-lived-set.ts';
import { proof } from '../../proof.ts';
import { collectGarbage } from '../collect-garbage.ts';

test('members are listed in the order of their arrival until they are removed', () => {
  const set = new ShortLivedSet<string>();
  const [first, , third] = ['a', 'b', 'c'].map((value) => set.add(value)) as [
    SetEntry<string>,
    unknown,
    SetEntry<string>,
  ];
  expect([...set]).toEqual(['a', 'b', 'c']);
  set.remove(first);
  set.remove(first);
  expect([[...set], set.size]).toEqual([['b', 'c'], 2]);
  // A member that is removed while the set is listed is not listed.
  const listed: string[] = [];
  for (const value of set) {
    listed.push(value);
    set.remove(third);
  }
  expect(listed).toEqual(['b']);
});

test('the same object can be a member twice, and each entry is removed alone', () => {
  const set = new ShortLivedSet<object>();
  const value = {};
  const entries = [set.add(value), set.add(value)];
  set.remove(entries[0] as SetEntry<object>);
  expect([...set]).toEqual([value]);
});

// A plain Set carries about half of its removed members into the old generation, 10 MB here.
test.runIf(proof)('removed members do not reach the old generation', () => {
  const usedBytes = () =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space')?.space_used_size ?? 0;
  const set = new ShortLivedSet<object>();
  const live: SetEntry<object>[] = [];
  // The table of the set is in the old generation when the members come and go.
  collectGarbage();
  const before = usedBytes();
  for (let i = 0; i < 5000; i++) {
    live.push(set.add({ payload: new Array(500).fill(i) }));
    if (live.length > 16) set.remove(live.shift() as SetEntry<object>);
    if (i % 100 === 0) collectGarbage('minor');
  }
  expect(usedBytes() - before).toBeLessThan(2 << 20);
});
