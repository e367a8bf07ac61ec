import { expect, test } from 'vitest';
import { createPace } from '../../../../src/upstreams/auth/logins/attempts.ts';

test('one name is stopped, others are not, and after a while it may go on', () => {
  let time = 0;
  const mayBegin = createPace(2, 100, () => time);
  expect(['a', 'a', 'a', 'b'].map(mayBegin)).toEqual([true, true, false, true]);
  time = 100;
  expect(mayBegin('a')).toBe(true);
});
