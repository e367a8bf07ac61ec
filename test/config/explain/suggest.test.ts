import { expect, test } from 'vitest';
import { findClosest } from '../../../src/config/explain/suggest.ts';

const keys = ['command', 'args', 'env', 'url', 'headers', 'scope', 'timeoutSeconds', 'trust', 'tools', 'servers'];

test.each([
  ['scop', 'scope'],
  ['SCOPE', 'scope'],
  ['comand', 'command'],
  ['cmomand', 'command'],
  ['arg', 'args'],
  ['ulr', 'url'],
  ['header', 'headers'],
  ['timeout', 'timeoutSeconds'],
  ['timeout_seconds', 'timeoutSeconds'],
  ['mcpServers', 'servers'],
])('%s was probably meant as %s', (word, meant) => {
  expect(findClosest(word, keys)).toBe(meant);
});

test.each(['', 'x', 'banana', 'zzzzzz', 't', 'a'.repeat(100_000)])('%j was not meant as any', (word) => {
  expect(findClosest(word.slice(0, 100_000), keys)).toBeUndefined();
});
