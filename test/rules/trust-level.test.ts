import { expect, test } from 'vitest';
import { normalizeTrust, trustSpellings } from '../../src/rules/trust-level.ts';

test.each([
  ['direct', 'direct'],
  ['trusted', 'direct'],
  ['sandboxed', 'sandboxed'],
  ['sandbox', 'sandboxed'],
  ['untrusted', 'sandboxed'],
])('%s means %s', (spelling, level) => {
  expect(normalizeTrust(spelling)).toBe(level);
});

test.each([
  'full',
  'host',
  'Direct',
  'DIRECT',
  ' direct',
  'direct\n',
  'direct\u0000',
  'dіrect',
  '',
  'constructor',
  '__proto__',
  'toString',
  true,
  1,
  null,
  undefined,
  ['direct'],
  { toString: () => 'direct' },
])('%j is unknown, so it is never direct', (value) => {
  expect(normalizeTrust(value)).toBeUndefined();
});

test('every listed spelling is known', () => {
  expect(trustSpellings.map(normalizeTrust)).not.toContain(undefined);
});
