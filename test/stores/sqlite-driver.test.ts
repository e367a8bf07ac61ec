import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isBusy } from '../../src/stores/sqlite/driver.ts';
import { newerNode } from '../tools/newer-node.ts';

test('Node’s own SQLite passes the suite too, which runs under node:test as well, without a warning', () => {
  const suite = join(import.meta.dirname, 'sqlite-suite.js');
  const env = { ...process.env, NODE_OPTIONS: '' };
  const { status, stdout, stderr } = spawnSync(newerNode(), ['--test-reporter=tap', suite], { encoding: 'utf8', env });
  expect(`${stdout}${stderr}`).not.toMatch(/^\s*not ok/m);
  expect(stdout).toMatch(/^# pass [1-9]\d/m);
  expect(stderr).not.toContain('ExperimentalWarning');
  expect(status).toBe(0);
});

test('a lock is recognised among the errors of both libraries', () => {
  expect(isBusy({ code: 'SQLITE_BUSY' })).toBe(true);
  expect(isBusy({ code: 'SQLITE_BUSY_SNAPSHOT' })).toBe(true);
  expect(isBusy({ code: 'ERR_SQLITE_ERROR', errcode: 261 })).toBe(true);
  expect(isBusy({ code: 'ERR_SQLITE_ERROR', errcode: 11 })).toBe(false);
  expect(isBusy(new Error('SQLITE_BUSY'))).toBe(false);
});
