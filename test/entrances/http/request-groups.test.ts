import { expect, test } from 'vitest';
import { createRequestGroups, type RequestGroups } from '../../../src/entrances/http/request-groups.ts';

function enterMany(groups: RequestGroups, count: number): void {
  for (let i = 0; i < count; i++) groups.enter();
}

test('a request that is alone does not wait', () => {
  const groups = createRequestGroups();
  groups.enter();
  expect(groups.join()).toBeUndefined();
  groups.enter();
  expect(groups.join()).toBeInstanceOf(Promise);
  groups.leave();
  expect(groups.join()).toBeUndefined();
});

test('requests of one turn take each step together, in the order of their arrival', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 3);
  const steps: string[] = [];
  const run = async (name: string) => {
    await groups.join();
    steps.push(`${name} first`);
    await undefined;
    steps.push(`${name} second`);
  };
  await Promise.all(['a', 'b', 'c'].map(run));
  expect(steps).toEqual(['a first', 'b first', 'c first', 'a second', 'b second', 'c second']);
});

test('a large crowd goes on in groups, and nobody is forgotten', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 100);
  const order: number[] = [];
  /** The requests that were done when the first request of each group had taken two steps. */
  const doneBefore: number[] = [];
  const run = async (index: number) => {
    await groups.join();
    await undefined;
    if (index % 32 === 0) doneBefore.push(order.length);
    order.push(index);
  };
  await Promise.all(Array.from({ length: 100 }, (_, index) => run(index)));
  expect(order).toEqual(Array.from({ length: 100 }, (_, index) => index));
  expect(doneBefore).toEqual([0, 32, 64, 96]);
});

test('a request that joins while a group goes on waits for the next one', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 2);
  const steps: string[] = [];
  const first = (async () => {
    await groups.join();
    steps.push('request');
    await groups.join();
    steps.push('reply');
  })();
  const second = (async () => {
    await groups.join();
    steps.push('other request');
  })();
  await Promise.all([first, second]);
  expect(steps).toEqual(['request', 'other request', 'reply']);
});
