import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { hasPodman } from '../../../needs/podman.ts';
import { describeWorkspaceBackend } from '../backend-suite.ts';
import { noRules } from '../suite/suite-workspace.ts';
import { createVolumeHarness } from './volume-harness.ts';

if (hasPodman()) {
  describeWorkspaceBackend(
    'a volume in a container',
    async () => {
      const harness = await createVolumeHarness();
      const volume = harness.freshVolume();
      return {
        open: async (options = {}) => harness.open(volume, { rules: noRules, ...options }),
        link: async (path, target) => symlinkSync(target, join(harness.placeOf(volume), path)),
        remove: () => harness.stop(),
      };
    },
    { links: true },
  );
}
