import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { WorkspaceBackend } from '../../../src/workspaces/backend.ts';
import { hasPodman } from '../../needs/podman.ts';
import { ensureBuilt } from '../../runners/ensure-built.ts';
import { describeWorkspaceBackend } from '../backend-suite.ts';
import { noRules } from '../suite/ground.ts';
import { createVolumeHarness } from './volume-harness.ts';

if (hasPodman()) {
  describeWorkspaceBackend(
    'a volume in a container',
    async () => {
      await ensureBuilt();
      const harness = await createVolumeHarness();
      const volume = harness.freshVolume();
      const opened = new Map<string, WorkspaceBackend>();
      return {
        // A container takes a while to start: who wants the same is given the same, and it ends with the last test.
        async open(options = {}) {
          const key = JSON.stringify(options);
          const files = opened.get(key) ?? harness.open(volume, { rules: noRules, ...options });
          opened.set(key, files);
          return { ...files, close: async () => {} };
        },
        link: async (path, target) => symlinkSync(target, join(harness.placeOf(volume), path)),
        remove: () => harness.stop(),
      };
    },
    { links: true },
  );
}
