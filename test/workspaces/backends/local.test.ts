import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { describeWorkspaceBackend } from './backend-suite.ts';
import { noRules } from './suite/suite-workspace.ts';

describeWorkspaceBackend(
  'a folder of the host',
  async () => {
    const base = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-local-')));
    const folder = join(base, 'ws');
    mkdirSync(folder);
    return {
      open: async ({ rules = noRules, ...options } = {}) => openLocal(folder, { rules, ...options }),
      link: async (path, target) => symlinkSync(target, join(folder, path)),
      remove: async () => rmSync(base, { recursive: true, force: true }),
    };
  },
  { links: true },
);
