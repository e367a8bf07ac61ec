import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { describeSessionStore } from '../../src/public/testing/store-suite/describe-session-store.ts';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { createTestClock } from './test-clock.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-sqlite-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describeSessionStore(
  'sqlite',
  async (options) => {
    const { now, advance } = createTestClock();
    const file = join(folder, `${randomBytes(6).toString('hex')}.db`);
    const another = () => openSqliteStore({ ...options, file, now });
    return { store: await another(), another, advance };
  },
  { describe, test },
);
