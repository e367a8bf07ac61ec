import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createNewSession } from '../../src/public/testing/store-suite/harness.ts';
import { admitRow, releaseRow, renewRow } from '../../src/stores/sqlite/admission-rows.ts';
import { type Database, openDatabase } from '../../src/stores/sqlite/driver.ts';
import { findLiveRow, findRows, listRows } from '../../src/stores/sqlite/session-rows.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-plans-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** How SQLite means to find the rows of a statement; `SCAN` of a table is looking at all of them. */
function planOf(database: Database, sql: string): string[] {
  const values = Array.from({ length: (sql.match(/\?/g) ?? []).length }, () => 1);
  return database
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...values)
    .map((row) => String(row['detail']));
}

test('L5, W10: finding a session, admitting a call and settling it never scan a table', async () => {
  const file = join(folder, 'sessions.db');
  const store = await openSqliteStore({ file });
  await store.create(createNewSession({ id: 'session-one', name: 'task#1', userId: 'ada', workspaceId: 'garden' }));
  await store.close();
  const database = openDatabase(file);
  const statements = new Set<string>();
  const heard: Database = {
    ...database,
    prepare(sql) {
      statements.add(sql);
      return database.prepare(sql);
    },
  };
  const [id, now] = ['session-one', Date.now()];
  const quota = { callsPerMinute: 600, concurrentCalls: 8, totalCalls: 1000, totalBytes: 1000 };
  const limits = { session: quota, user: quota, workspace: quota };
  expect(findLiveRow(heard, id, now)).toMatchObject({ id });
  for (const filter of [{}, { userId: 'ada' }]) {
    for (const reference of [id, 'task#1', 'session-o']) {
      expect(findRows(heard, reference, filter, now)).toMatchObject([{ id }]);
    }
  }
  expect(listRows(heard, { userId: 'ada', parentId: id }, { at: 0, id: '', limit: 10 }, now).sessions).toEqual([]);
  expect(admitRow(heard, { id, holdMs: 1000, limits }, 'lease', now)).toMatchObject({ outcome: 'admitted' });
  expect(renewRow(heard, { id, lease: 'lease' }, 5000, { bytes: 1 }, now)).toBe(true);
  releaseRow(heard, { id, lease: 'lease' }, { bytes: 1 }, now);
  expect(statements.size).toBeGreaterThan(8);
  const scans = [...statements].flatMap((sql) =>
    planOf(database, sql)
      // The index by age has all live sessions in it.
      .filter((detail) => /^SCAN (?!CONSTANT ROW|\(subquery)|live_by_age/.test(detail))
      .map((detail) => `${sql}: ${detail}`),
  );
  expect(scans).toEqual([]);
  const named = [...statements]
    .filter((sql) => /\bname = \?/.test(sql))
    .flatMap((sql) => planOf(database, sql)[0] ?? []);
  expect(named).toEqual([expect.stringContaining('live_by_name'), expect.stringContaining('live_by_name')]);
  // The check can fail.
  expect(planOf(database, 'SELECT * FROM sessions WHERE body = ?').join()).toMatch(/^SCAN/);
  database.close();
});
