import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import { openDatabase } from '../../../src/workspaces/backends/database/open-database.ts';
import { describeWorkspaceBackend } from './backend-suite.ts';
import { noRules } from './suite/suite-workspace.ts';

describeWorkspaceBackend(
  'kept by SQLite',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ambit-files-'));
    const store = await openSqliteStore({ file: join(folder, 'files.db') });
    // As another process would, one of the two does not know of the other.
    const other = await openSqliteStore({ file: join(folder, 'files.db') });
    let opened = 0;
    return {
      open: async ({ rules = noRules, ...options } = {}) =>
        openDatabase((opened++ % 2 === 0 ? store : other).documents, 'ws', { rules, ...options }),
      async remove() {
        await store.close();
        await other.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  },
  { links: false },
);
