import { expect, test } from 'vitest';
import { renderEntry } from '../../../src/cli/commands/audit.ts';

const time = '2026-11-18T09:00:00.000Z';
const [id, sessionId] = ['7dbb2f5f-f2b6-4036-88d7-35a2ab9be109', '2471b6bf0ea724c24c48c578b2fbec2d'];

test.each([
  [
    { kind: 'call', id, sessionId, server: 'who', method: 'tools/call', name: 'who__list', outcome: 'ok', ms: 4.2 },
    'call who__list: ok, 4.2 ms',
  ],
  [
    { kind: 'call', server: '*', method: 'tools/list', outcome: 'ok', ms: 225.4, traceId: 'aa' },
    'call * tools/list: ok, 225 ms',
  ],
  [
    { kind: 'process', event: 'stderr', server: 'who', line: 'session=2471b6bf', runner: 'plain', pid: 7 },
    'process who: session=2471b6bf, pid=7',
  ],
  [
    { kind: 'file', tool: 'session_move_file', operation: 'move', asked: 'a', resolved: 'b', decision: 'allowed' },
    'file session_move_file move a -> b: allowed',
  ],
  [
    { kind: 'gateway', event: 'key-revoked', userId: 'ada.lovelace@example', keyId: '0123456789abcdef' },
    'gateway key-revoked, userId=ada.lovelace@example, keyId=01234567',
  ],
  [{ kind: 'later', event: 'unknown', deep: { list: [1] } }, 'later unknown, deep={"list":[1]}'],
  [{ kind: 'call', name: 'a\u001b[2J\u202eb\n\u2028c\td' }, 'call a\\u202eb\\u000a\\u2028c    d'],
])('%j is shown in words', (entry, words) => {
  const line = renderEntry({ time, ...entry });
  expect(line.slice(36)).toBe(words);
  expect(line).toMatch(/^\d\d-\d\d \d\d:\d\d:\d\d {2}(?:7dbb2f5f|- {7}) {2}(?:2471b6bf|- {7}) {2}/);
});

test('a line fits the terminal, whatever it holds', () => {
  const line = renderEntry(
    { time, kind: 'process', event: 'stderr', server: 'who', line: '\u{1f600}'.repeat(500) },
    80,
  );
  expect(line.length).toBeLessThanOrEqual(80);
  expect(line.endsWith('…')).toBe(true);
  expect(renderEntry({ time: 'x'.repeat(5000), kind: 'call' }, 80).length).toBeLessThanOrEqual(80);
});
