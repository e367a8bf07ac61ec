import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { openDatabase } from '../../../src/workspaces/backends/database/open-database.ts';
import { describeWorkspaceBackend } from './backend-suite.ts';
import { noRules } from './suite/suite-workspace.ts';

describeWorkspaceBackend(
  'kept in memory',
  async () => {
    const store = openMemoryStore();
    return {
      open: async ({ rules = noRules, ...options } = {}) =>
        openDatabase(store.documents, 'Work Space', { rules, ...options }),
      remove: () => store.close(),
    };
  },
  { links: false },
);
