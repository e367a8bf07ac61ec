import { hasPodman } from './needs/podman.ts';
import { findRedis } from './stores/redis-server.ts';

/** Once, before the suites start side by side: two installations at a time would lock each other out. */
export function setup(): void {
  for (const find of [findRedis, hasPodman]) {
    try {
      find();
    } catch {
      // The suite that needs it says so.
    }
  }
}
