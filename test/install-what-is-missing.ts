import { hasBwrap } from './needs/bwrap.ts';
import { hasJq } from './needs/jq.ts';
import { hasPodman } from './needs/podman.ts';
import { findRedis } from './stores/redis-server.ts';

/** Once, before the suites start side by side: two installations at a time would lock each other out. */
export function setup(): void {
  for (const find of [findRedis, hasBwrap, hasPodman, hasJq]) {
    try {
      find();
    } catch {
      // The suite that needs it says so.
    }
  }
}
