import { expect, test } from 'vitest';
import { readSessionEnvironment } from '../../../src/cli/commands/stdio.ts';

test('missing and empty variables give no session', () => {
  const nothing = { id: undefined, token: undefined, storeDir: undefined, includeMeta: undefined, draft: {} };
  expect(readSessionEnvironment({})).toEqual(nothing);
  expect(readSessionEnvironment({ AMBIT_SESSION_ID: '', AMBIT_SESSION_TOKEN: '', AMBIT_USER_ID: '' })).toEqual(nothing);
});

test('each variable sets its member', () => {
  const named = readSessionEnvironment({
    AMBIT_SESSION_ID: 'task-0049',
    AMBIT_SESSION_TOKEN: 'ambs_x',
    AMBIT_USER_ID: 'ada',
    AMBIT_AGENT_ID: 'a1',
    AMBIT_SESSION_TTL_SECONDS: '600',
    AMBIT_SESSION_STORE_DIR: '/var/lib/ambit/../sessions',
    AMBIT_SESSION_INCLUDE_META: 'Yes',
  });
  expect(named).toEqual({
    id: 'task-0049',
    token: 'ambs_x',
    storeDir: '/var/lib/sessions',
    includeMeta: true,
    draft: { id: 'task-0049', userId: 'ada', agentId: 'a1', ttlSeconds: 600 },
  });
});

test.each([
  [
    'AMBIT_SESSION_ID',
    ['short', 'Upper-case', '../../etc', 'with space 1', '-leading-dash', 'a'.repeat(65), 'naïve-id', 'line\nbreak1'],
  ],
  ['AMBIT_SESSION_TTL_SECONDS', ['0', '-1', '1.5', '1e3', 'soon', '0x10', '9'.repeat(10)]],
  ['AMBIT_SESSION_INCLUDE_META', ['2', 'maybe', 'tru']],
])('L2: %s is refused when it is not valid', (name, values) => {
  for (const value of values) expect(() => readSessionEnvironment({ [name]: value })).toThrow(name);
});
