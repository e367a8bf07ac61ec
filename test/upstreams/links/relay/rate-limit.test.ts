import { expect, test } from 'vitest';
import { createRateLimit } from '../../../../src/upstreams/links/relay/rate-limit.ts';

/** How many of a hundred messages are let through at this moment. */
function admitted(rate: { admit(): boolean }): number {
  return Array.from({ length: 100 }, () => rate.admit()).filter(Boolean).length;
}

test('a burst of twice the rate is let through, then as much as the time allows', () => {
  let now = 1000;
  const rate = createRateLimit(10, () => now);
  expect(admitted(rate)).toBe(20);
  expect(admitted(rate)).toBe(0);
  now += 500;
  expect(admitted(rate)).toBe(5);
  now += 3_600_000;
  expect(admitted(rate)).toBe(20);
});
