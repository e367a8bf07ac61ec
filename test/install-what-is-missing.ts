import { findRedis } from './stores/redis-server.ts';

/** Once, before the suites start side by side: two installations at a time would lock each other out. */
export function setup(): void {
  try {
    findRedis();
  } catch {
    // The suite that needs it says so.
  }
}
