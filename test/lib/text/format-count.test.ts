import { expect, test } from 'vitest';
import { formatCount } from '../../../src/lib/text/format-count.ts';

test('one thing is singular, any other number plural', () => {
  expect([0, 1, 2].map((count) => formatCount(count, 'session'))).toEqual(['0 sessions', '1 session', '2 sessions']);
  expect(formatCount(2, 'entry', 'entries')).toBe('2 entries');
});
